import Foundation
import PrimusSwift

// The snippets of the documentation of PrimusSwift.

private func overview() {
    // snippet:PrimusSwiftOverview
    let primus = Primus(url: URL(string: "http://localhost:9090/primus")!)
    primus.on("open") { print("open") }
    primus.on("data") { (data: [String: Any], raw: Any) in print(data) }
    primus.write(["my-data": 123])
    // end
}

private func primusClass() {
    // snippet:PrimusClass
    let primus = Primus(url: URL(string: "http://localhost:9090/primus")!)
    primus.on("data") { (data: [String: Any], raw: Any) in print(data) }
    primus.write(["my-data": 123])
    // end
}

private func listeners(_ primus: Primus) {
    // snippet:PrimusListeners
    primus.on("open") { print("open") }
    primus.on("data") { (data: [String: Any], raw: Any) in print(data) }
    // end
    // snippet:PrimusEventListeners
    primus.on("readyStateChange") { (state: String) in print(state) }
    primus.on("reconnect scheduled") { (attempt: PrimusReconnectOptions) in print(attempt.attempt) }
    primus.once("open") { print("open for the first time") }
    // end
    // snippet:PrimusListenerRemoval
    let listener = primus.on("data") { (data: [String: Any], raw: Any) in print(data) }
    primus.removeListener("data", listener)
    // end
    // snippet:PrimusTransform
    primus.transform("incoming") { data in
        data["foo"] = "bar"
        return true
    }
    // end
    // snippet:PrimusAcknowledgement
    primus.on("greet") { (name: String, acknowledge: PrimusAcknowledgement) in acknowledge("Hello, \(name)") }
    // end
}

private func strategies() {
    // snippet:PrimusConnectOptions
    let options = PrimusConnectOptions()
    options.manual = true
    options.strategy = [.timeout]
    // end
    // snippet:PrimusEmitterPlugin
    options.plugins = ["emitter": PrimusEmitterPlugin.self]
    // end
    // snippet:PrimusConfigure
    options.configure = { configuration in configuration.queue = .dropOldest(50) }
    // end
    // snippet:PrimusReconnectOptions
    options.reconnect.retries = 3
    // end
}
