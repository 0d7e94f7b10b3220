public import PusherWire
public import RealtimeCore

/// The ways in which servers of the Pusher protocol differ, as independent settings.
///
/// A client that works with one server can fail with another, for example because data arrives as JSON instead of a string that contains
/// JSON. To test a client against such a server, set the profile of its app:
///
/// ```swift
/// let pusher = try await InMemoryPusher { $0.profile = .soketi }
/// ```
/// The presets ``pusher``, ``soketi``, ``reverb``, ``slanger`` and ``sockudo`` follow these servers as far as the settings allow. A preset also
/// determines the limits and timeouts of the app, as far as the app doesn't set them itself: with `reverb`, the
/// ``PusherApp/activityTimeout`` is 30 seconds, and channels may have any names.
public struct PusherServerProfile: Sendable, Hashable {
    /// How a server rejects a subscription.
    public enum SubscriptionErrors: Sendable, Hashable {
        /// With the event `pusher:error`, like the Pusher service.
        case error
        /// With the event `pusher:subscription_error` on the channel, like soketi.
        case subscriptionError
        /// With the event `pusher_internal:subscription_error` on the channel and without a reason, like pusher-fake.
        case internalSubscriptionError
    }

    /// How a server checks that an inactive client is still there.
    public enum Pings: Sendable, Hashable {
        /// With the event `pusher:ping`.
        case events
        /// With the pings of the WebSocket.
        case controlFrames
        /// Not at all: the connection of a client that sends nothing stays open.
        case none
    }

    /// How a server notifies a client of the users on its watchlist.
    public enum WatchlistEvents: Sendable, Hashable {
        /// With the event `pusher_internal:watchlist_events`, like the Pusher service.
        case grouped
        /// With the events `online` and `offline` without a channel, like sockudo.
        case separate
        /// Not at all.
        case none
    }

    // MARK: The form of data

    /// The form of an error's data.
    public var errorData = PusherDataForm.json
    /// The form of the data that confirms a subscription to a channel that isn't a presence channel. It is empty.
    public var subscriptionData = PusherDataForm.string
    /// The form of the data when a member joins or leaves a presence channel.
    public var memberData = PusherDataForm.string
    /// The form of a ping's data. It is empty.
    public var pingData = PusherDataForm.json
    /// The form of a pong's data. It is empty.
    public var pongData = PusherDataForm.json
    /// The form of the data of `pusher:cache_miss`. It is empty.
    public var cacheMissData = PusherDataForm.string
    /// The form of a client event's data. With ``PusherDataForm/json``, the server forwards the data as it was sent.
    public var clientEventData = PusherDataForm.string
    /// The form of the data that confirms a sign-in.
    public var signInData = PusherDataForm.json

    /// Whether the confirmation of a subscription to a presence channel lists the IDs of the members, in addition to their information by ID.
    public var listsMemberIDs = true
    /// Whether the event about a member who left contains the information about the member.
    public var removalsContainUserInfo = false
    /// Whether IDs of users that are integers are sent as numbers, like those that a Laravel application signs.
    public var sendsNumericUserIDs = false

    // MARK: Errors and closing

    /// Whether errors name the channel that they concern.
    public var errorsNameChannel = true
    /// Whether errors without a code omit it. Otherwise, the code is `null`.
    public var omitsMissingErrorCodes = false
    /// How the server rejects subscriptions.
    public var subscriptionErrors = SubscriptionErrors.error
    /// Whether the error about an invalid signature has no code, and repeats what was to be signed and the signature of the client.
    public var quotesSignatures = false
    /// Whether the server sends an error before it closes a connection.
    public var sendsErrorsBeforeClosing = true
    /// Whether the server closes connections without a close code. The error that it sends first contains the code.
    public var closesWithoutCode = false
    /// The code with which the server rejects connections over ``PusherApp/connectionLimit``.
    public var connectionLimitCode = PusherCloseCode.overQuota
    /// Whether the server keeps a connection open after the error that rejects it because of ``PusherApp/connectionLimit`` or
    /// ``PusherApp/allowedOrigins``. It ignores what the client sends then.
    public var keepsRejectedConnections = false
    /// Whether the server ends a connection without an error and without a close frame if there is no such app, if the app is disabled, or if it
    /// is over ``PusherApp/connectionLimit``.
    public var dropsRejectedConnections = false
    /// Whether the server closes a connection whose sign-in failed.
    public var closesAfterFailedSignIn = false
    /// Whether the signature of a subscription covers the `channel_data` of each channel, if there is some, and not only that of a presence
    /// channel.
    public var signsAllChannelData = true

    // MARK: Features

    /// How the server pings inactive clients.
    public var pings = Pings.events
    /// Whether the server confirms a subscription that exists already, instead of responding with an error.
    public var confirmsRepeatedSubscriptions = false
    /// Whether the subscribers of a presence channel are notified of each connection of a user, instead of each user. Early versions of
    /// Reverb do this.
    public var notifiesOfEachConnection = false
    /// Whether cache channels keep their last event. Otherwise, they are like other channels.
    public var cachesEvents = true
    /// Whether the data of a client event must be a JSON object or array, or a string that contains one. Combine it with
    /// ``clientEventData``, since such a server forwards JSON.
    public var requiresStructuredClientEvents = false
    /// Whether client events on presence channels contain the ID of the user who sent them.
    public var clientEventsNameSender = true
    /// Whether users can sign in.
    public var allowsSignIn = true
    /// Whether the confirmation of a sign-in repeats the signature.
    public var repeatsSignInSignature = false
    /// How the server notifies a client of the users on its watchlist.
    public var watchlistEvents = WatchlistEvents.grouped

    /// The limits and timeouts of an app that doesn't set them.
    var limits = Limits()

    /// The limits and timeouts of a server with its default settings; see the properties of ``PusherApp`` with the same names.
    struct Limits: Sendable, Hashable {
        var activityTimeout = Duration.seconds(120)
        var clientEventsPerSecond = 10
        var memberLimit = 100
        var messageLimit = 100 << 10
        var eventDataLimit = 10 << 10
        var eventNameLimit = 200
        var validatesChannelNames = true
        var channelNameLimit = 200
        var userIDLimit = 128
        var userInfoLimit = 1 << 10
        /// Whether the `user_info` of a user must be an object.
        var requiresUserInfoObjects = true
        var publicationChannelLimit = 100
        var batchLimit = 10
        var cachedEventLifetime = Duration.seconds(1800)

        /// The timeouts of the Pusher service, and no limits.
        static let none: Limits = {
            var limits = Limits()
            (limits.clientEventsPerSecond, limits.memberLimit) = (.max, .max)
            (limits.messageLimit, limits.eventDataLimit, limits.eventNameLimit) = (.max, .max, .max)
            (limits.validatesChannelNames, limits.channelNameLimit) = (false, .max)
            (limits.userIDLimit, limits.userInfoLimit, limits.requiresUserInfoObjects) = (.max, .max, false)
            (limits.publicationChannelLimit, limits.batchLimit) = (.max, .max)
            return limits
        }()
    }

    /// Creates the profile of the Pusher service.
    public init() {}

    // MARK: Presets

    /// The Pusher service.
    public static let pusher = PusherServerProfile()

    /// [soketi](https://github.com/soketi/soketi) 1.6.
    public static let soketi: PusherServerProfile = {
        var profile = PusherServerProfile()
        profile.subscriptionData = .omitted
        profile.cacheMissData = .omitted
        profile.clientEventData = .json
        profile.subscriptionErrors = .subscriptionError
        profile.connectionLimitCode = PusherCloseCode.overCapacity
        profile.closesAfterFailedSignIn = true
        profile.pings = .none
        profile.confirmsRepeatedSubscriptions = true
        profile.repeatsSignInSignature = true
        profile.watchlistEvents = .none
        profile.signsAllChannelData = false
        // soketi's `server.ts`, and `activity_timeout` in `ws-handler.ts`.
        profile.limits.activityTimeout = .seconds(30)
        profile.limits.clientEventsPerSecond = .max
        profile.limits.messageLimit = 100 << 20
        profile.limits.eventDataLimit = 100 << 10
        profile.limits.validatesChannelNames = false
        profile.limits.userIDLimit = .max
        profile.limits.userInfoLimit = 2 << 10
        profile.limits.requiresUserInfoObjects = false
        profile.limits.cachedEventLifetime = .seconds(3600)
        return profile
    }()

    /// [Laravel Reverb](https://github.com/laravel/reverb) 1.
    public static let reverb: PusherServerProfile = {
        var profile = PusherServerProfile()
        profile.errorData = .string
        profile.pingData = .omitted
        profile.pongData = .omitted
        profile.cacheMissData = .omitted
        profile.clientEventData = .json
        profile.errorsNameChannel = false
        profile.closesWithoutCode = true
        profile.confirmsRepeatedSubscriptions = true
        profile.requiresStructuredClientEvents = true
        profile.keepsRejectedConnections = true
        profile.allowsSignIn = false
        profile.watchlistEvents = .none
        // Reverb's `config/reverb.php`. It limits messages and requests instead of the data, and doesn't check names and numbers.
        profile.limits = .none
        profile.limits.activityTimeout = .seconds(30)
        profile.limits.messageLimit = 10_000
        profile.limits.eventDataLimit = 10_000
        return profile
    }()

    /// [slanger](https://github.com/stevegraham/slanger) 0.6.
    public static let slanger: PusherServerProfile = {
        var profile = PusherServerProfile()
        profile.errorData = .string
        profile.memberData = .json
        profile.pongData = .string
        profile.clientEventData = .json
        profile.errorsNameChannel = false
        profile.omitsMissingErrorCodes = true
        profile.quotesSignatures = true
        profile.closesWithoutCode = true
        profile.pings = .none
        profile.cachesEvents = false
        profile.clientEventsNameSender = false
        profile.requiresStructuredClientEvents = true
        profile.allowsSignIn = false
        profile.watchlistEvents = .none
        // slanger limits nothing but the messages of clients, as em-websocket does. Its HTTP API accepts names of up to 164 characters.
        profile.limits = .none
        profile.limits.messageLimit = 10 << 20
        return profile
    }()

    /// [sockudo](https://github.com/sockudo/sockudo) 5.
    public static let sockudo: PusherServerProfile = {
        var profile = PusherServerProfile()
        profile.pingData = .omitted
        profile.pongData = .omitted
        profile.clientEventData = .json
        profile.errorsNameChannel = false
        profile.clientEventsNameSender = false
        profile.confirmsRepeatedSubscriptions = true
        profile.dropsRejectedConnections = true
        profile.watchlistEvents = .separate
        profile.signsAllChannelData = false
        // An app of sockudo has the limits that it sets itself. The server's settings for events and presence channels have no effect in version 5.2,
        // and names of channels and events are limited in `validation.rs` and `utils.rs`.
        profile.limits = .none
        profile.limits.messageLimit = 16 << 20
        profile.limits.eventNameLimit = 200
        profile.limits.validatesChannelNames = true
        profile.limits.channelNameLimit = 200
        profile.limits.cachedEventLifetime = .seconds(3600)
        return profile
    }()
}
