import PusherWire
import RealtimeCore
import RealtimeCoding
import RealtimeSystem

/// Sends the webhooks of a server.
final class WebhookSender: Sendable {
    private let driver: SessionDriver<WebhookMachine>
    /// Passes the events of the server to the machine, until it is released.
    private let observation: CallbackObservation

    init(
        _ webhooks: PusherServerWebhooks, app: PusherApp, http: any HTTPTransport, of server: SessionDriver<PusherServerMachine>,
        time: any TimeSource, log: LogSink
    ) {
        let settings = WebhookMachine.Settings(
            endpoints: webhooks.endpoints, sendsBatches: webhooks.sendsBatches, absenceDelay: webhooks.absenceDelay,
            retryPeriod: webhooks.retryPeriod)
        let dependencies = SessionDriver<WebhookMachine>.Dependencies(
            time: time, log: log, subsystem: "pusher-webhooks"
        ) { work, id, driver in
            // A request is asynchronous and needs a task to run in. The driver cancels it when the server is released. The task also
            // creates the request, since signing a large batch would delay the clients.
            let task = Task {
                let request = Self.request(work, app: app, headers: webhooks.headers)
                driver.workFinished(id, await Self.send(request, over: http))
            }
            return { task.cancel() }
        }
        let driver = SessionDriver(WebhookMachine(settings), in: dependencies)
        self.driver = driver
        // Dropping events would falsify the counts of the machine. One step can cause very many, such as the end of a connection.
        self.observation = server.observe(.pauseReading(10_000), lifetime: .client, schedule: { $0() }) { events, output in
            output.append(contentsOf: events)
        } register: { machine, id, effects in
            effects.routes.add(id, to: &machine.eventRoute)
        } callback: { event in
            let unixMilliseconds = WallClock.millisecondsSince1970
            driver.step { $0.occurred(event, unixMilliseconds: unixMilliseconds, now: $1, &$2) }
        }
    }

    deinit { self.driver.shutDown() }

    private static func request(_ work: WebhookMachine.Work, app: PusherApp, headers: HTTPHeaders) -> HTTPRequest {
        let body: JSONValue = [
            "time_ms": .number(JSONNumber(work.unixMilliseconds)), "events": .array(work.events.map { .object($0.json) }),
        ]
        let bytes = body.bytes
        var headers = headers
        headers["Content-Type"] = "application/json"
        headers[WebhookSignature.keyField] = app.key
        headers[WebhookSignature.signatureField] = WebhookSignature.hex(of: bytes, secret: app.secret)
        return HTTPRequest("POST", work.endpoint.http, headers: headers, body: bytes, idleTimeout: .seconds(10))
    }

    private static func send(_ request: HTTPRequest, over http: any HTTPTransport) async -> WebhookMachine.WorkResult {
        do throws(TransportError) {
            let response = try await http.send(request, bodyLimit: 64 << 10)
            if (200...299).contains(response.head.status) { return .accepted }
            let target = response.head.redirectTarget(from: request.endpoint).map { " It redirects to \($0); use that URL." } ?? ""
            return .failed("\(request.endpoint) responded with status \(response.statusSummary)\(target)")
        } catch {
            return .failed(error.message)
        }
    }
}
