import Foundation
import RealtimeSystem

/// How a client learns that the app moves to the background and back, and gets time there.
///
/// A client uses ``standard`` unless ``PrimusConnectOptions/lifecycle`` has another one, such as one of a test.
public struct PrimusLifecycle: Sendable {
    /// A change of the app's state.
    public enum Event: Hashable, Sendable {
        /// The app is in the background, where the system soon suspends it.
        case enteredBackground
        /// The app is active.
        case becameActive
    }

    /// Ends an observation, or the time in the background.
    public typealias End = @Sendable () -> Void

    let observe: @Sendable (_ handler: @escaping @Sendable (Event) -> Void) -> End
    let requestTime: @Sendable () -> End

    /// Creates a source of changes.
    ///
    /// - Parameters:
    ///   - observe: Calls a handler with each change from now on, on any thread, until the closure that it returns is called.
    ///   - requestTime: Asks the system for time in the background, until the closure that it returns is called.
    public init(
        observe: @escaping @Sendable (_ handler: @escaping @Sendable (Event) -> Void) -> End, requestTime: @escaping @Sendable () -> End
    ) {
        (self.observe, self.requestTime) = (observe, requestTime)
    }

    /// On Apple platforms with apps in the background, the notifications of the app, and an expiring activity of the process. Elsewhere,
    /// nothing.
    public static let standard = PrimusLifecycle { handler in
        #if canImport(ObjectiveC)
        // Named by their texts, so that extensions of apps, which have no `UIApplication`, can use this library.
        let names: [(String, Event)] = [
            ("UIApplicationDidEnterBackgroundNotification", .enteredBackground),
            ("UIApplicationDidBecomeActiveNotification", .becameActive),
        ]
        let tokens = names.map { name, event in
            NotificationCenter.default.addObserver(forName: Notification.Name(name), object: nil, queue: nil) { _ in handler(event) }
        }
        // Opaque objects, which are only given back.
        nonisolated(unsafe) let observers = tokens
        return { for observer in observers { NotificationCenter.default.removeObserver(observer) } }
        #else
        return {}
        #endif
    } requestTime: {
        #if canImport(ObjectiveC)
        let activity = BackgroundActivity()
        ProcessInfo.processInfo.performActivity(for: activity)
        return { activity.end() }
        #else
        return {}
        #endif
    }

    /// Whether the app declares the background mode for calls, as far as Primus-Objc's default depends on it.
    static var hasCallMode: Bool { Self.hasCallMode(Bundle.main.infoDictionary) }

    static func hasCallMode(_ information: [String: Any]?) -> Bool {
        (information?["UIBackgroundModes"] as? [String])?.contains("voip") ?? false
    }
}

#if canImport(ObjectiveC)
/// Time in the background, until it expires or isn't needed any more.
private final class BackgroundActivity: Sendable {
    private let semaphore = DispatchSemaphore(value: 0)

    func end() { self.semaphore.signal() }
    func wait() { self.semaphore.wait() }
}

extension ProcessInfo {
    fileprivate func performActivity(for activity: BackgroundActivity) {
        // The system calls the closure on a queue of its own, and again with `true` when the time expires.
        self.performExpiringActivity(withReason: "Primus") { isExpired in
            if isExpired { activity.end() } else { activity.wait() }
        }
    }
}
#endif
