import Foundation
import PusherChannels

// The way from the socket to a struct of one's own, with the library's decoder and with Foundation's.
//
//   swift run -c release foundation-bench PATH-OF-THE-TOOL [MESSAGES]
//
// The tool makes the load. Interleaved rounds in a changing order, medians; processor time of this process.

struct Price: Codable {
    var symbol: String
    var price: Double
    var volume: Int
    var side: String
    var time: Int
    var venue: String
}

struct Envelope: Codable {
    var event: String
    var channel: String
    var data: String
}

func processTime() -> Double {
    var time = timespec()
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time)
    return Double(time.tv_sec) * 1e9 + Double(time.tv_nsec)
}

func median(_ values: [Double]) -> Double { values.sorted()[values.count / 2] }

guard CommandLine.arguments.count > 1 else {
    print("usage: foundation-bench PATH-OF-THE-TOOL [MESSAGES]")
    exit(2)
}
let messages = CommandLine.arguments.count > 2 ? Int(CommandLine.arguments[2]) ?? 50_000 : 50_000
let load = Process()
let (input, output) = (Pipe(), Pipe())
load.executableURL = URL(fileURLWithPath: CommandLine.arguments[1])
load.arguments = ["bench-load"]
load.standardInput = input
load.standardOutput = output
try load.run()
let ready = String(decoding: output.fileHandleForReading.availableData, as: UTF8.self).split(whereSeparator: \.isWhitespace)
guard ready.count == 2, ready[0] == "ready", let port = Int(ready[1]) else {
    print("The load did not start.")
    exit(1)
}

func receive(_ take: (PusherEvent) throws -> Int) async throws -> Double {
    let client = PusherClient(key: "bench", host: "127.0.0.1", port: port, useTLS: false)
    defer { client.disconnect() }
    client.connect()
    try await client.connected()
    let channel = try client.subscribe("prices")
    try await channel.subscribed()
    var count = 0
    var sum = 0
    let events = channel.events("price", buffer: .pauseReading(4096))
    let start = processTime()
    input.fileHandleForWriting.write(Data("burst \(messages) 1\n".utf8))
    for await event in events {
        sum &+= try take(event)
        count += 1
        if count == messages { break }
    }
    precondition(count == messages && sum > 0)
    return (processTime() - start) / Double(messages)
}

let decoder = JSONDecoder()
let encoder = JSONEncoder()

let ways: [(name: String, take: (PusherEvent) throws -> Int)] = [
    ("event.decode", { try $0.decode(Price.self).volume }),
    ("JSONDecoder for the data", { try decoder.decode(Price.self, from: Data(($0.data ?? "").utf8)).volume }),
]
var times = [[Double]](repeating: [], count: ways.count)
for round in 0...9 {
    for index in ways.indices.shuffled() {
        let time = try await receive(ways[index].take)
        if round > 0 { times[index].append(time) }
    }
}

/// Without a socket: what Foundation takes for the envelope as well, as a client that is built on it does.
let text = try encoder.encode(
    Envelope(
        event: "price", channel: "prices",
        data: #"{"symbol":"ACME","price":1234.56,"volume":98765,"side":"buy","time":1712345678901,"venue":"XXXXXXXXXXXXXXXXXX"}"#))
var twice: [Double] = []
for _ in 0..<9 {
    let start = processTime()
    for _ in 0..<20_000 {
        let envelope = try decoder.decode(Envelope.self, from: text)
        let price = try decoder.decode(Price.self, from: Data(envelope.data.utf8))
        precondition(price.volume > 0)
    }
    twice.append((processTime() - start) / 20_000)
}

for (way, times) in zip(ways, times) { print("\(way.name): \(Int(median(times))) ns CPU for each event, whole path") }
print("JSONDecoder for envelope and data, no socket: \(Int(median(twice))) ns CPU")
print("whole path to JSONDecoder for the data: \(median(zip(times[0], times[1]).map { $0 / $1 }))")
print("whole path to JSONDecoder twice: \(median(zip(times[0], twice).map { $0 / $1 }))")
input.fileHandleForWriting.closeFile()
