import Foundation
import RealtimeCore

/// Runs code that blocks or computes for long on a thread of its own. All tasks share as few threads as there are processors, so the code
/// would stop other tests.
package func onOwnThread<Value: Sendable>(_ body: @escaping @Sendable () throws -> Value) async throws -> Value {
    let waiter = Waiter<Result<Value, any Error>>()
    Thread.detachNewThread { waiter.fulfill(Result { try body() })?.resume() }
    return try await waiter.value().get()
}
