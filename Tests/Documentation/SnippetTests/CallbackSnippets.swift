import Dispatch
import PusherChannels

// The snippets about callbacks.

func executorSnippet(_ channel: PusherChannel, _ queue: DispatchQueue) -> [PusherObservation] {
    // snippet:channels-callbacks
    let onQueue = PusherCallbackExecutor { run in queue.async { run() } }
    let observations = [
        channel.on("price", on: .tasks) { event in print(event.data ?? "") },
        channel.on("price", on: onQueue) { event in print(event.data ?? "") },
    ]
    // end
    return observations
}

func executorReferenceSnippet(_ queue: DispatchQueue) -> PusherCallbackExecutor {
    // snippet:reference-executor
    let executor = PusherCallbackExecutor { run in queue.async { run() } }
    // end
    return executor
}

@MainActor
private final class TitleController {
    private var observation: PusherObservation?
    private(set) var title = ""

    func watch(_ channel: PusherChannel) {
        // snippet:reference-on
        self.observation = channel.on("price") { [weak self] event in
            self?.title = event.data ?? ""
        }
        // end
    }
}

// snippet:app-callbacks
@MainActor
final class PriceController {
    private var observation: PusherObservation?
    private(set) var title = ""

    func watch(_ channel: PusherChannel) {
        self.observation = channel.on("price", as: Price.self) { [weak self] price in
            self?.title = "\(price.symbol): \(price.value)"
        }
    }
}
// end
