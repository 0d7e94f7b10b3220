import RealtimeCore
import SignalRWire

/// Reads arbitrary bytes as a connection of the hub protocol. The first byte chooses the format, the second one how the bytes are divided.
///
/// Reading must not crash, must not depend on the division, and each message must survive writing and reading.
@_cdecl("LLVMFuzzerTestOneInput")
public func fuzzHubMessages(_ start: UnsafePointer<UInt8>?, _ count: Int) -> CInt {
    guard count >= 2, let start else { return 0 }
    let format = start[0] & 1 == 0 ? HubFormat.json : .messagePack
    let input = UnsafeRawBufferPointer(start: start + 2, count: count - 2)

    let whole = read(input, format, partSize: max(1, input.count))
    let divided = read(input, format, partSize: Int(start[1]) + 1)
    precondition(whole.outputs == divided.outputs && whole.error == divided.error, "the output depends on how the bytes are divided")

    let coder = HubValueCoder(format)
    for case .message(let message) in whole.outputs {
        let written = HubMessageWriter.message(message, format)
        let again = written.bytes.withUnsafeBytes { read($0, format, partSize: max(1, $0.count)) }
        precondition(again.outputs == [.message(message)] && again.error == nil, "the written message can't be read")
        decode(message, coder)
    }

    _ = try? HubHandshake.parseRequest(input)
    _ = try? HubHandshake.parseResponse(input)
    return 0
}

private func read(
    _ bytes: UnsafeRawBufferPointer, _ format: HubFormat, partSize: Int
) -> (outputs: [HubMessageReader.Output], error: HubFramingError?) {
    var reader = HubMessageReader(format, messageLimit: 4096)
    var outputs: [HubMessageReader.Output] = []
    var start = 0
    do throws(HubFramingError) {
        while start < bytes.count {
            let end = min(start + partSize, bytes.count)
            try reader.read(UnsafeRawBufferPointer(rebasing: bytes[start..<end])) { outputs.append($0) }
            start = end
        }
        return (outputs, nil)
    } catch {
        return (outputs, error)
    }
}

/// A type whose decoding reads values of all kinds.
private struct Sample: Codable {
    var name: String?
    var numbers: [Double]?
    var nested: [String: [Sample]]?
}

private func decode(_ message: HubMessage, _ coder: HubValueCoder) {
    switch message {
    case .invocation(let invocation), .streamInvocation(let invocation):
        // Values that are nested too deeply are errors.
        guard var arguments = try? coder.decodeArguments(invocation.arguments) else { return }
        var parsed = arguments
        for _ in 0..<((try? parsed.count()) ?? 0) {
            var (sample, optional, number, flag) = (arguments, arguments, arguments, arguments)
            _ = try? sample.next(Sample.self)
            _ = try? optional.next(Int?.self)
            precondition((try? number.next(Double.self)) == (try? parsed.next(Double.self)), "a number depends on how it is read")
            _ = try? flag.next(Bool.self)
            if let text = try? arguments.next(String.self) {
                guard let payload = try? coder.arguments(text), let again = try? coder.decodeArguments(payload) else {
                    preconditionFailure("the text can't be encoded")
                }
                precondition((try? again.decode(String.self)) == text, "the text has changed")
            }
        }
    case .streamItem(_, let payload), .completion(_, .result(let payload)): _ = try? coder.decode([Sample].self, from: payload)
    default: break
    }
}
