// The Swift part of the stub of ObjectiveC.
@_exported public import ObjectiveC

/// The name of a method.
public struct Selector: Hashable {
    private var value: OpaquePointer
    public init(_ text: String) { self.value = OpaquePointer(bitPattern: 1)! }
}

extension NSObject {
    public func perform(_ selector: Selector) -> Unmanaged<AnyObject>? { nil }
    public func perform(_ selector: Selector, with object: Any?) -> Unmanaged<AnyObject>? { nil }
    public func perform(_ selector: Selector, with object: Any?, with other: Any?) -> Unmanaged<AnyObject>? { nil }
}
