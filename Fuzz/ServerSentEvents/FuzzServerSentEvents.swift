import RealtimeCore

let limit = 64

struct DecodedEvents: Equatable {
    var events: [[UInt8]] = []
    var isTooLarge = false
}

func decode(_ parts: [UnsafeRawBufferPointer]) -> DecodedEvents {
    var decoder = ServerSentEventDecoder(limit: limit)
    var result = DecodedEvents()
    for part in parts {
        var batch = MessageBatch()
        do throws(TransportError) {
            try decoder.decode(part, into: &batch)
        } catch {
            precondition(error.code == .tooLarge)
            result.isTooLarge = true
        }
        result.events += batch.messages.map(\.bytes)
        if result.isTooLarge { break }
    }
    return result
}

/// Decodes a stream as the standard describes it: first the UTF-8, then the lines, then the fields.
func decodeByTheStandard(_ bytes: UnsafeRawBufferPointer) -> [[UInt8]] {
    let hasMark = bytes.starts(with: [0xEF, 0xBB, 0xBF])
    let text = String(decoding: bytes.dropFirst(hasMark ? 3 : 0), as: UTF8.self)
    var (lines, line, isAfterReturn) = ([[UInt8]](), [UInt8](), false)
    for byte in text.utf8 {
        defer { isAfterReturn = byte == 0x0D }
        if byte == 0x0A, isAfterReturn { continue }
        guard byte == 0x0A || byte == 0x0D else {
            line.append(byte)
            continue
        }
        lines.append(line)
        line = []
    }
    var (events, data) = ([[UInt8]](), [UInt8]())
    for line in lines {
        if line.isEmpty {
            if !data.isEmpty { events.append(data.dropLast()) }
            data = []
            continue
        }
        let name = line.prefix { $0 != UInt8(ascii: ":") }
        var value = line.dropFirst(name.count + 1)
        if value.first == UInt8(ascii: " ") { value.removeFirst() }
        if Array(name) == Array("data".utf8) { data += value + [0x0A] }
    }
    return events
}

/// Decodes a stream as a whole, in two parts and byte by byte, with the same result, and compares it with what the standard describes. The
/// first byte of the input is the position of the cut.
@_cdecl("LLVMFuzzerTestOneInput")
public func fuzz(_ start: UnsafePointer<UInt8>, _ count: Int) -> CInt {
    guard count > 0 else { return 0 }
    let bytes = UnsafeRawBufferPointer(start: start + 1, count: count - 1)
    let cut = bytes.isEmpty ? 0 : Int(start[0]) % bytes.count
    let halves = [UnsafeRawBufferPointer(rebasing: bytes[..<cut]), UnsafeRawBufferPointer(rebasing: bytes[cut...])]
    let whole = decode([bytes])
    precondition(decode(halves) == whole)
    precondition(decode(bytes.indices.map { UnsafeRawBufferPointer(rebasing: bytes[$0...$0]) }) == whole)
    let expected = decodeByTheStandard(bytes)
    if whole.isTooLarge {
        precondition(expected.starts(with: whole.events))
    } else {
        precondition(expected == whole.events)
    }
    for event in whole.events { precondition(event.count <= 3 * limit && Array(String(decoding: event, as: UTF8.self).utf8) == event) }
    return 0
}
