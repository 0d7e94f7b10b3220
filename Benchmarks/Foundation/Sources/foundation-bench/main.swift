import Foundation
import PusherChannels

// Compares receiving an event as a `Codable` struct, from the socket on, with the library's decoder and with Foundation's.
//
//   swift run -c release foundation-bench PATH-OF-THE-TOOL [MESSAGES]
//
// The tool is the load generator. Prints medians of the processor time of this process, over interleaved rounds in random order.

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
    print("The load generator did not start.")
    exit(1)
}

/// Receives all events, and returns the processor time per event in nanoseconds.
func receive(_ decode: (PusherEvent) throws -> Int) async throws -> Double {
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
        sum &+= try decode(event)
        count += 1
        if count == messages { break }
    }
    precondition(count == messages && sum > 0)
    return (processTime() - start) / Double(messages)
}

let decoder = JSONDecoder()
let encoder = JSONEncoder()

let candidates: [(name: String, decode: (PusherEvent) throws -> Int)] = [
    ("event.decode", { try $0.decode(Price.self).volume }),
    ("JSONDecoder for the data", { try decoder.decode(Price.self, from: Data(($0.data ?? "").utf8)).volume }),
]
var times = [[Double]](repeating: [], count: candidates.count)
for round in 0...9 {
    for index in candidates.indices.shuffled() {
        let time = try await receive(candidates[index].decode)
        if round > 0 { times[index].append(time) }
    }
}

// Foundation's decoder for the envelope as well, without a socket: the least that a client based on Foundation does.
let text = try encoder.encode(
    Envelope(
        event: "price", channel: "prices",
        data: #"{"symbol":"ACME","price":1234.56,"volume":98765,"side":"buy","time":1712345678901,"venue":"XXXXXXXXXXXXXXXXXX"}"#))
var envelopeTimes: [Double] = []
for _ in 0..<9 {
    let start = processTime()
    for _ in 0..<20_000 {
        let envelope = try decoder.decode(Envelope.self, from: text)
        let price = try decoder.decode(Price.self, from: Data(envelope.data.utf8))
        precondition(price.volume > 0)
    }
    envelopeTimes.append((processTime() - start) / 20_000)
}

for (candidate, times) in zip(candidates, times) { print("\(candidate.name): \(Int(median(times))) ns CPU per event, entire path") }
print("JSONDecoder for envelope and data, no socket: \(Int(median(envelopeTimes))) ns CPU")
print("ratio of event.decode to JSONDecoder for the data, entire path: \(median(zip(times[0], times[1]).map { $0 / $1 }))")
print("ratio of event.decode, entire path, to JSONDecoder for envelope and data: \(median(zip(times[0], envelopeTimes).map { $0 / $1 }))")
input.fileHandleForWriting.closeFile()
