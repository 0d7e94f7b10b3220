// swift-format-ignore-file: AllPublicDeclarationsHaveDocumentation

// The declarations of SwiftUI that the snippets in the documentation use, written from its documentation. The snippets are compiled against
// them where SwiftUI isn't available.

@MainActor
public protocol View {
    associatedtype Body: View
    @ViewBuilder var body: Body { get }
}

@resultBuilder @MainActor
public enum ViewBuilder {
    public static func buildBlock<Content: View>(_ content: Content) -> Content { content }
    public static func buildBlock<First: View, Second: View>(_ first: First, _ second: Second) -> some View { EmptyView() }
    public static func buildIf(_ content: (some View)?) -> some View { EmptyView() }
}

public struct EmptyView: View {
    public init() {}
    public var body: Never { preconditionFailure("a stub has no body") }
}

extension Never: View {
    public var body: Never { preconditionFailure("a stub has no body") }
}

public struct Text: View {
    public init(_ text: String) {}
    public var body: Never { preconditionFailure("a stub has no body") }
}

public struct List<Data: RandomAccessCollection, ID: Hashable, Row: View>: View {
    public init(_ data: Data, id: KeyPath<Data.Element, ID>, @ViewBuilder row: @escaping (Data.Element) -> Row) {}
    public var body: Never { preconditionFailure("a stub has no body") }
}

public struct Group<Content: View>: View {
    public init(@ViewBuilder content: () -> Content) {}
    public var body: Never { preconditionFailure("a stub has no body") }
}

extension View {
    public func task(_ action: @escaping @MainActor @Sendable () async -> Void) -> some View { EmptyView() }
    public func navigationTitle(_ title: String) -> some View { EmptyView() }
}

@MainActor
public protocol Scene {
    associatedtype Body: Scene
    var body: Body { get }
}

extension Never: Scene {}

public struct WindowGroup<Content: View>: Scene {
    public init(@ViewBuilder content: () -> Content) {}
    public var body: Never { preconditionFailure("a stub has no body") }
}

extension Scene {
    public func onChange<Value: Equatable>(of value: Value, _ action: @escaping (Value, Value) -> Void) -> some Scene {
        WindowGroup { EmptyView() }
    }
}

@MainActor
public protocol App {
    associatedtype Body: Scene
    var body: Body { get }
    init()
}

public enum ScenePhase: Comparable, Sendable { case background, inactive, active }

public struct EnvironmentValues {
    public var scenePhase: ScenePhase { .active }
}

@propertyWrapper
public struct Environment<Value> {
    public init(_ keyPath: KeyPath<EnvironmentValues, Value>) { self.wrappedValue = EnvironmentValues()[keyPath: keyPath] }
    public let wrappedValue: Value
}

@propertyWrapper
public struct State<Value> {
    public init(wrappedValue: Value) { self.wrappedValue = wrappedValue }
    public var wrappedValue: Value
}
