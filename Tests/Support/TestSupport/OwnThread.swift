import Foundation
import RealtimeCore

#if canImport(Glibc)
import Glibc
#elseif canImport(Musl)
import Musl
#endif

/// Runs code that blocks or computes for long on a thread of its own. All tasks share as few threads as there are processors, so the code
/// would stop other tests.
///
/// - Parameter isBackground: Whether the thread only runs when no other does.
package func onOwnThread<Value: Sendable>(
    isBackground: Bool = false, _ body: @escaping @Sendable () throws -> Value
) async throws -> Value {
    let waiter = Waiter<Result<Value, any Error>>()
    let thread = Thread {
        #if os(Linux)
        // On Linux, the priority is that of the thread.
        if isBackground { setpriority(__priority_which_t(PRIO_PROCESS.rawValue), 0, 19) }
        #endif
        waiter.fulfill(Result { try body() })?.resume()
    }
    #if canImport(Darwin)
    if isBackground { thread.qualityOfService = .background }
    #endif
    thread.start()
    return try await waiter.value().get()
}
