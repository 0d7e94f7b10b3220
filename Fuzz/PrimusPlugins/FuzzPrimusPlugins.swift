import PrimusWire
import RealtimeCore

/// Reads arbitrary bytes as a message that may be a packet of a plugin. The first byte chooses the parser, the second one the plugins.
///
/// Reading must not crash, each packet must survive writing and reading, and decoding its values must not crash.
@_cdecl("LLVMFuzzerTestOneInput")
public func fuzzPrimusPlugins(_ start: UnsafePointer<UInt8>?, _ count: Int) -> CInt {
    guard count >= 2, let start else { return 0 }
    let coding: PrimusCoding =
        switch start[0] & 3 {
        case 0: .json
        case 1: .ejson
        case 2: .messagePack
        default: .binary
        }
    let plugins = PrimusPluginSet(rawValue: start[1] & PrimusPluginSet.all.rawValue)
    var bytes = [UInt8](UnsafeBufferPointer(start: start + 2, count: count - 2))
    let kind: TransportMessage.Kind = coding == .json || coding == .ejson ? .text : .binary
    // A WebSocket connection passes on text in valid UTF-8 only.
    if kind == .text { bytes = Array(String(decoding: bytes, as: UTF8.self).utf8) }

    let reader = PrimusPluginReader(plugins, coding)
    guard case .packet(let packet) = bytes.withUnsafeBytes({ reader.read($0, kind) }) else { return 0 }
    precondition(!plugins.isEmpty, "a packet without a plugin")
    let writer = PrimusPluginWriter(coding)
    guard let written = try? writer.message(packet) else { preconditionFailure("the packet can't be written") }
    let again = written.bytes.withUnsafeBytes { PrimusPluginReader(.all, coding).read($0, written.kind) }
    precondition(again == .packet(packet), "the written packet is another one")

    switch packet {
    case .emitter(.event(_, let arguments, _)), .emitter(.acknowledgement(_, let arguments)): decode(arguments)
    case .emit(let packet): decode(packet.arguments)
    case .multiplex(.message(_, let payload)):
        decode(payload)
        _ = PrimusPluginReader(.emitter, coding).read(payload)
    case .substream(.message(_, let payload)), .responder(.request(_, let payload)), .responder(.response(_, let payload)): decode(payload)
    case .multiplex, .substream: break
    }
    return 0
}

/// A type whose decoding reads values of all kinds.
private struct Sample: Codable {
    var name: String?
    var numbers: [Double]?
    var nested: [String: [Sample]]?
}

private func decode(_ payload: PrimusPayload) {
    _ = try? payload.value()
    _ = try? payload.decode(Sample.self)
    _ = try? payload.decode([Int].self)
}

private func decode(_ arguments: PrimusArguments) {
    let values = try? arguments.values()
    _ = try? arguments.decode(String.self, Int.self, Sample.self)
    var reader = arguments.reader
    for _ in 0..<min(values?.count ?? 0, 100) {
        // Values that are nested too deeply are errors.
        if (try? reader.argument(String.self)) == nil, (try? reader.argument(Double.self)) == nil { return }
    }
}
