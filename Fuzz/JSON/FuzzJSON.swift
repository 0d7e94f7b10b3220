import RealtimeJSON
import RealtimeCore

/// Any bytes through all readers of JSON: they agree on what is JSON, and what they read survives being written.
@_cdecl("LLVMFuzzerTestOneInput")
public func fuzzJSON(_ start: UnsafePointer<UInt8>?, _ count: Int) -> CInt {
    let input = UnsafeRawBufferPointer(start: start, count: count)
    let bytes = Array(input)
    let error = verdict { try JSONText.validate(input) }

    var tree: JSONValue?
    let treeError = verdict { tree = try JSONValue(parsing: bytes) }
    precondition(treeError == error, "the tree and the check disagree")
    var decoded: JSONValue?
    let decoderError = verdict { decoded = try JSONValueDecoder().decode(JSONValue.self, from: bytes) }
    precondition(decoderError == error, "the decoder and the check disagree")
    precondition(decoded == tree, "the decoder and the tree disagree")

    checkScan(input, tree, error)
    if let tree { checkWriting(tree) }
    return 0
}

private let keys = JSONKeys("", "a", "event", "channel", "data", "12345678", "123456789")
private let names = ["", "a", "event", "channel", "data", "12345678", "123456789"]

private func checkScan(_ input: UnsafeRawBufferPointer, _ tree: JSONValue?, _ error: JSONError?) {
    var scan: JSONObjectScan?
    let scanError = verdict { scan = try JSONObjectScan(input, keys: keys) }
    if scanError?.code == .notAnObject {
        precondition(error == nil && tree?.object == nil, "the scan misses an object")
        return
    }
    precondition(scanError == error, "the scan and the check disagree")
    guard let scan, let object = tree?.object else { return }
    for (index, name) in names.enumerated() {
        let slice = scan[index]
        precondition((slice.kind != .missing) == (object[name] != nil), "the scan and the tree find different members")
        guard slice.kind != .missing else { continue }
        let found: JSONValue
        if slice.kind.isString {
            found = .string(JSONText.string(slice, in: input))
            let raw = UnsafeRawBufferPointer(rebasing: input[slice.range])
            precondition(found.string.map { Array($0.utf8) } == JSONText.unescapedBytes(raw), "a string and its bytes differ")
            _ = JSONText.loneSurrogate(raw)
        } else {
            found = parsed(Array(input[slice.range]))
        }
        precondition(found == object[name], "the scan and the tree find different values")
    }
}

private func checkWriting(_ tree: JSONValue) {
    let written = tree.bytes
    precondition(parsed(written) == tree, "what was written reads back as something else")
    precondition(parsed(written).bytes == written, "writing is not stable")
    precondition((try? JSONValueEncoder().encode(tree)) == written, "the encoder and the tree write different text")
    _ = try? JSONValueDecoder().decode(Shape.self, from: written)
    _ = try? JSONValueDecoder().decode([String: Shape].self, from: written)
}

/// Something that asks for many kinds of value.
private struct Shape: Decodable {
    var a: Int?
    var event: String?
    var channel: [Double]?
    var data: [String: Int8?]?
    var more: [Shape]?
}

private func parsed(_ bytes: [UInt8]) -> JSONValue {
    do {
        return try JSONValue(parsing: bytes)
    } catch {
        preconditionFailure("what was written or found is no JSON: \(error)")
    }
}

private func verdict(_ body: () throws -> Void) -> JSONError? {
    do {
        try body()
        return nil
    } catch let error as JSONError {
        return error
    } catch {
        preconditionFailure("an error of another kind: \(error)")
    }
}
