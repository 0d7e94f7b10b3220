/// Limits on the input of a parser or decoder.
public struct CodingLimits: Hashable, Sendable {
    /// The maximum nesting depth of arrays and objects. The default is 512.
    ///
    /// A value that is nested thousands of levels deep can overflow the stack when it is traversed or deallocated.
    public var depth: Int
    /// The maximum size of the input in bytes. The default is `Int32.max`, which is also the highest possible value.
    public var size: Int

    /// Creates limits.
    ///
    /// - Parameters:
    ///   - depth: The maximum nesting depth of arrays and objects.
    ///   - size: The maximum size of the input in bytes. Values above `Int32.max` are reduced to it.
    public init(depth: Int = 512, size: Int = Int(Int32.max)) {
        self.depth = depth
        self.size = min(size, Int(Int32.max))
    }
}
