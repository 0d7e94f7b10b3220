// snippet:readme-primus
import PrimusClient

struct Temperature: Codable, Sendable {
    let sensor: Int
    let celsius: Double
}

func watchTemperatures() async throws {
    var configuration = try PrimusConfiguration(url: "https://example.org/primus")
    configuration.plugins = [.emitter]
    let primus = PrimusConnection(configuration)
    primus.open()
    let sensors: [Int] = try await primus.emitter.send("sensors")
    print("sensors: \(sensors)")
    for await temperature in primus.messages(as: Temperature.self) {
        print(temperature.sensor, temperature.celsius)
    }
}
// end
