import RealtimeSystem
package import RealtimeCore

extension VirtualNetwork {
    /// Sends an HTTP request.
    ///
    /// - Parameter completion: Receives the complete response or the error. Called once, on the thread of the simulation.
    /// - Returns: A closure that cancels the request.
    @discardableResult
    package func send(
        _ request: HTTPRequest, _ completion: @escaping @Sendable (Result<HTTPResponse, TransportError>) -> Void
    ) -> @Sendable () -> Void {
        let exchange = VirtualExchange(self, request, completion)
        exchange.start()
        return { exchange.finish(.failure(TransportError(.cancelled, "The request was cancelled."))) }
    }
}

/// One HTTP request and its response.
///
/// `@unchecked Sendable`: used only on the thread of the simulation.
private final class VirtualExchange: @unchecked Sendable {
    private let network: VirtualNetwork
    private let request: HTTPRequest
    private var completion: (@Sendable (Result<HTTPResponse, TransportError>) -> Void)?

    init(
        _ network: VirtualNetwork, _ request: HTTPRequest, _ completion: @escaping @Sendable (Result<HTTPResponse, TransportError>) -> Void
    ) {
        self.network = network
        self.request = request
        self.completion = completion
    }

    func start() {
        let (network, simulation) = (self.network, self.network.simulation)
        network.totals.requests += 1
        simulation.note("  \(self.request.method) \(self.request.endpoint.target)")
        simulation.schedule(at: simulation.now.advanced(by: self.request.idleTimeout)) { [self] in
            self.step("timed out", .failure(TransportError(.timedOut, "The virtual network did not respond in time.")))
        }
        if simulation.chance(network.conditions.unansweredRequests) { return }
        guard let server = network.server(at: self.request.endpoint), !simulation.chance(network.conditions.failedRequests) else {
            return simulation.schedule(in: network.conditions.refusalDelay) { [self] in
                self.step("refused", .failure(TransportError(.refused, "The virtual network refused the request.")))
            }
        }
        simulation.schedule(in: network.conditions.delay) { [self] in
            let head = HTTPRequestHead(method: self.request.method, target: self.request.endpoint.target, headers: self.request.headers)
            simulation.step(.arrival, "server: \(head.method) \(head.target)") {
                server.respond(to: head, body: self.request.body) { response in
                    simulation.schedule(in: network.conditions.delay) { self.step("\(response.head.status)", .success(response)) }
                }
            }
        }
    }

    private func step(_ what: String, _ result: Result<HTTPResponse, TransportError>) {
        guard self.completion != nil else { return }
        self.network.simulation.step(.arrival, "response to \(self.request.method) \(self.request.endpoint.target): \(what)") {
            self.finish(result)
        }
    }

    func finish(_ result: Result<HTTPResponse, TransportError>) { self.completion.take()?(result) }
}

/// Sends requests over a virtual network. It must be called in a task of the simulation.
struct VirtualHTTP: HTTPTransport {
    let network: VirtualNetwork

    func open(_ request: HTTPRequest) async throws(TransportError) -> HTTPStreamedResponse {
        let waiter = Waiter<Result<HTTPResponse, TransportError>>()
        let cancel = self.network.send(request) { waiter.fulfill($0)?.resume() }
        let response = try await waiter.value(onCancel: cancel).get()
        return HTTPStreamedResponse(response)
    }
}
