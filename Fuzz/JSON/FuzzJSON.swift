import RealtimeCoding

/// Reads arbitrary bytes with all readers of JSON. They must return the same error or value, and the value must survive writing and
/// parsing.
@_cdecl("LLVMFuzzerTestOneInput")
public func fuzzJSON(_ start: UnsafePointer<UInt8>?, _ count: Int) -> CInt {
    let input = UnsafeRawBufferPointer(start: start, count: count)
    let bytes = Array(input)
    let error = jsonError { try JSONText.validate(input) }

    var tree: JSONValue?
    let treeError = jsonError { tree = try JSONValue(parsing: bytes) }
    precondition(treeError == error, "parsing and validation return different errors")
    var decoded: JSONValue?
    let decoderError = jsonError { decoded = try JSONValueDecoder().decode(JSONValue.self, from: bytes) }
    precondition(decoderError == error, "decoding and validation return different errors")
    precondition(decoded == tree, "decoding and parsing return different values")

    checkScan(input, tree, error)
    if let tree { checkWriting(tree) }
    return 0
}

private let keys = JSONKeys("", "a", "event", "channel", "data", "12345678", "123456789")
private let names = ["", "a", "event", "channel", "data", "12345678", "123456789"]

private func checkScan(_ input: UnsafeRawBufferPointer, _ tree: JSONValue?, _ error: JSONError?) {
    var scan: JSONObjectScan?
    let scanError = jsonError { scan = try JSONObjectScan(input, keys: keys) }
    if scanError?.code == .notAnObject {
        precondition(error == nil && tree?.object == nil, "the scan rejects an object or invalid text as another value")
        return
    }
    precondition(scanError == error, "the scan and validation return different errors")
    guard let scan, let object = tree?.object else { return }
    for (index, name) in names.enumerated() {
        let slice = scan[index]
        precondition((slice.kind != .missing) == (object[name] != nil), "the scan and the object have different members")
        guard slice.kind != .missing else { continue }
        let found: JSONValue
        if slice.kind.isString {
            found = .string(JSONText.string(slice, in: input))
            let raw = UnsafeRawBufferPointer(rebasing: input[slice.range])
            precondition(found.string.map { Array($0.utf8) } == JSONText.unescapedBytes(raw), "a string and its unescaped bytes differ")
            _ = JSONText.loneSurrogate(raw)
        } else {
            found = parsed(Array(input[slice.range]))
        }
        precondition(found == object[name], "the scan and the object have different values")
    }
}

private func checkWriting(_ tree: JSONValue) {
    let written = tree.bytes
    precondition(parsed(written) == tree, "the value does not survive writing and parsing")
    precondition(parsed(written).bytes == written, "writing the parsed value again results in different text")
    precondition((try? JSONValueEncoder().encode(tree)) == written, "the encoder writes different text")
    _ = try? JSONValueDecoder().decode(Shape.self, from: written)
    _ = try? JSONValueDecoder().decode([String: Shape].self, from: written)
}

/// A type that decodes many kinds of values.
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
        preconditionFailure("the written or found text is invalid: \(error)")
    }
}

private func jsonError(_ body: () throws -> Void) -> JSONError? {
    do {
        try body()
        return nil
    } catch let error as JSONError {
        return error
    } catch {
        preconditionFailure("not a JSONError: \(error)")
    }
}
