/// The operations for which a descriptor is ready.
struct Readiness: OptionSet, Sendable {
    let rawValue: UInt8

    static let read = Readiness(rawValue: 1)
    static let write = Readiness(rawValue: 2)
}

/// The owner of a descriptor on a loop. Called on the loop's thread.
protocol PollHandler: AnyObject, Sendable {
    /// The descriptor is ready. Also called for errors and hang-ups, which the next operation on the descriptor reports.
    func ready(_ readiness: Readiness)
    /// The loop shuts down: close the descriptor and report the end.
    func loopDidShutDown()
}

/// An object with work for the loop's thread. It requests service with ``EventLoop/requestService(of:)``.
package protocol LoopServiced: AnyObject, Sendable {
    /// Does the pending work. Called on the loop's thread.
    func service()
}
