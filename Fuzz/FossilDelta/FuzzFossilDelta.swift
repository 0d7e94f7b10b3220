import PusherWire

/// Applies arbitrary bytes as a delta, and compares two arbitrary texts. Applying must neither crash nor exceed the limit, and each text
/// must survive the way over its delta.
@_cdecl("LLVMFuzzerTestOneInput")
public func fuzzFossilDelta(_ start: UnsafePointer<UInt8>?, _ count: Int) -> CInt {
    let bytes = Array(UnsafeRawBufferPointer(start: start, count: count))
    // The first byte is the size of the base, which precedes the delta.
    let size = min(Int(bytes.first ?? 0), max(0, bytes.count - 1))
    let (base, rest) = (Array(bytes.dropFirst().prefix(size)), Array(bytes.dropFirst(1 + size)))
    let limit = 4_096
    if let result = try? FossilDelta.apply(rest, to: base, limit: limit) {
        precondition(result.count <= limit, "the result exceeds the limit")
        precondition(
            (try? FossilDelta.apply(FossilDelta.make(result, from: base), to: base, limit: limit)) == result, "the result has changed")
    }

    let delta = FossilDelta.make(rest, from: base)
    precondition((try? FossilDelta.apply(delta, to: base, limit: rest.count)) == rest, "the text has changed")
    if !rest.isEmpty {
        precondition((try? FossilDelta.apply(delta, to: base, limit: rest.count - 1)) == nil, "the result exceeds the limit")
    }
    return 0
}
