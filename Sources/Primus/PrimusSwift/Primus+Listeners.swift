public import Dispatch

// A listener takes the arguments of an event one by one, each as a type of its own: `Any`, `[String: Any]`, `String`, a type that is
// `Decodable` for values that were received, `NSError` or `PrimusError` for errors. It may take fewer. If an argument has another type, the
// listener isn't called, and an event `error` says why. A message of another kind than the listener takes, such as a text for a dictionary, isn't an
// error: a server may send both.
extension Primus {
    /// Adds a listener of an event, which is called on the main actor.
    ///
    /// ```swift
    /// primus.on("open") { print("open") }
    /// primus.on("data") { (data: [String: Any], raw: Any) in print(data) }
    /// ```
    /// - Parameters:
    ///   - event: The name of the event.
    ///   - listener: Called with the arguments of each event, as the types of its parameters. It may take fewer. If an argument can't be
    ///     converted to the type of its parameter, the listener isn't called, and an event `error` says why. Where the argument is a value of
    ///     another kind, such as a text for a dictionary, only the log says so, once.
    /// - Returns: An object for ``removeListener(_:_:)``. The listener remains if you don't keep it.
    @discardableResult
    public func on<each Argument>(
        _ event: String, _ listener: @escaping @MainActor @Sendable (repeat each Argument) -> Void
    ) -> PrimusListener { self.add(event, isOnce: false, on: .main) { Self.callOnMain(listener, $0) } }

    /// Adds a listener of an event whose argument has any type; see `on(_:_:)`.
    @discardableResult
    public func on(_ event: String, _ listener: @escaping @MainActor @Sendable (Any) -> Void) -> PrimusListener {
        self.add(event, isOnce: false, on: .main) { Self.callOnMain(listener, $0) }
    }

    /// Adds a listener of an event whose arguments have any types; see `on(_:_:)`.
    @discardableResult
    public func on(_ event: String, _ listener: @escaping @MainActor @Sendable (Any, Any) -> Void) -> PrimusListener {
        self.add(event, isOnce: false, on: .main) { Self.callOnMain(listener, $0) }
    }

    /// Adds a listener of an event, which is called on a queue; see `on(_:_:)`.
    ///
    /// - Parameters:
    ///   - event: The name of the event.
    ///   - queue: A serial queue.
    ///   - listener: Called with the arguments of each event.
    /// - Returns: An object for ``removeListener(_:_:)``.
    @discardableResult
    public func on<each Argument>(
        _ event: String, queue: DispatchQueue, _ listener: @escaping @Sendable (repeat each Argument) -> Void
    ) -> PrimusListener { self.add(event, isOnce: false, on: PrimusQueue(queue: queue)) { Self.call(listener, $0) } }

    /// Adds a listener that is called once, for the next event; see `on(_:_:)`.
    @discardableResult
    public func once<each Argument>(
        _ event: String, _ listener: @escaping @MainActor @Sendable (repeat each Argument) -> Void
    ) -> PrimusListener { self.add(event, isOnce: true, on: .main) { Self.callOnMain(listener, $0) } }

    /// Adds a listener that is called once, for the next event; see `on(_:_:)`.
    @discardableResult
    public func once(_ event: String, _ listener: @escaping @MainActor @Sendable (Any) -> Void) -> PrimusListener {
        self.add(event, isOnce: true, on: .main) { Self.callOnMain(listener, $0) }
    }

    /// Adds a listener that is called once, for the next event; see `on(_:_:)`.
    @discardableResult
    public func once(_ event: String, _ listener: @escaping @MainActor @Sendable (Any, Any) -> Void) -> PrimusListener {
        self.add(event, isOnce: true, on: .main) { Self.callOnMain(listener, $0) }
    }

    /// Adds a listener that is called once on a queue, for the next event; see ``on(_:queue:_:)``.
    @discardableResult
    public func once<each Argument>(
        _ event: String, queue: DispatchQueue, _ listener: @escaping @Sendable (repeat each Argument) -> Void
    ) -> PrimusListener { self.add(event, isOnce: true, on: PrimusQueue(queue: queue)) { Self.call(listener, $0) } }

    /// Adds a listener; another name for `on(_:_:)`.
    @discardableResult
    public func addListener<each Argument>(
        _ event: String, _ listener: @escaping @MainActor @Sendable (repeat each Argument) -> Void
    ) -> PrimusListener { self.add(event, isOnce: false, on: .main) { Self.callOnMain(listener, $0) } }

    /// Adds a listener; another name for `on(_:_:)`.
    @discardableResult
    public func addListener(_ event: String, _ listener: @escaping @MainActor @Sendable (Any) -> Void) -> PrimusListener {
        self.on(event, listener)
    }

    /// Adds a listener; another name for `on(_:_:)`.
    @discardableResult
    public func addListener(_ event: String, _ listener: @escaping @MainActor @Sendable (Any, Any) -> Void) -> PrimusListener {
        self.on(event, listener)
    }

    // MARK: Calling

    private static func callOnMain<each Argument>(
        _ listener: @escaping @MainActor @Sendable (repeat each Argument) -> Void, _ arguments: [PrimusArgument]
    ) -> ListenerArguments.Mismatch? {
        // The queue of the listener is the main queue.
        MainActor.assumeIsolated {
            var reader = ListenerArguments(arguments)
            do throws(ListenerArguments.Mismatch) {
                let values = (repeat try reader.next((each Argument).self))
                listener(repeat each values)
                return nil
            } catch {
                return error
            }
        }
    }

    private static func call<each Argument>(
        _ listener: @Sendable (repeat each Argument) -> Void, _ arguments: [PrimusArgument]
    ) -> ListenerArguments.Mismatch? {
        var reader = ListenerArguments(arguments)
        do throws(ListenerArguments.Mismatch) {
            let values = (repeat try reader.next((each Argument).self))
            listener(repeat each values)
            return nil
        } catch {
            return error
        }
    }
}
