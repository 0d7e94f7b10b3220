import PusherWire
import RealtimeCore

/// The user of a session: the sign-in as a state machine, and the consumers of the user's updates.
///
/// ```
///   idle ──signIn()──▶ waiting ──connected──▶ authenticating ──authenticated──▶ signingIn ──succeeded──▶ signedIn
///                         ▲                          │                              │
///                         │                          └── failed, timed out ──▶ failed ◀── rejected, timed out
///                         └───────────── connection lost, from every state but idle ─────────────────────┘
///   failed ──signIn() or a retry──▶ authenticating
/// ```
struct PusherUserSession: Sendable {
    enum State: Hashable, Sendable {
        case idle
        case waiting
        case authenticating(WorkID)
        case signingIn
        case signedIn(PusherMember)
        indirect case failed(PusherError)

        var publicState: PusherSignInState {
            switch self {
            case .idle: .signedOut
            case .waiting, .authenticating, .signingIn: .pending
            case .signedIn(let user): .signedIn(user)
            case .failed(let error): .failed(error)
            }
        }

        /// Whether the user may become signed in without another call.
        var isPending: Bool { self.publicState == .pending }
    }

    /// A subscription to a presence channel whose member is the user.
    struct WaitingSubscription: Sendable {
        var channel: ChannelID
        var work: WorkID
        var authorization: PusherChannelAuthorization
    }

    var state = State.idle
    /// When the sign-in times out, or when a failed one is retried.
    var deadline: Instant?
    /// The number of failures in a row.
    var failures = 0
    var waiters = WaitingCalls()
    /// Subscriptions that wait until the user is signed in.
    var subscriptions: [WaitingSubscription] = []
    var states = EventRoutes.none
    var watchlist = EventRoutes.none
    var events = ChannelRoutes()
    /// The events of the user that deltas refer to, if the server sends some.
    @Boxed var deltaBases: DeltaBases?

    /// The channel of the user, while the user is signed in.
    var channel: String? { if case .signedIn(let user) = self.state { UserID.channel(of: user.id) } else { nil } }
}
