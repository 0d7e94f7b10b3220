#if canImport(ObjectiveC)
public import Foundation
import RealtimeSystem

// The selectors of Primus-Objc, of its categories for events, and of primus-emitter-objc.

extension Primus {
    /// Adds a listener: a block with as many parameters as it needs, each an object.
    @available(swift, obsoleted: 1.0)
    @objc(on:listener:) public func objcOn(_ event: String, listener: AnyObject) { self.add(event, block: listener, isOnce: false) }

    /// Adds a listener that is called once: a block.
    @available(swift, obsoleted: 1.0)
    @objc(once:listener:) public func objcOnce(_ event: String, listener: AnyObject) { self.add(event, block: listener, isOnce: true) }

    /// Adds a listener: a block.
    @available(swift, obsoleted: 1.0)
    @objc(addListener:listener:) public func objcAddListener(_ event: String, listener: AnyObject) {
        self.add(event, block: listener, isOnce: false)
    }

    /// Removes a listener: the same block that was added.
    @available(swift, obsoleted: 1.0)
    @objc(removeListener:listener:) public func objcRemoveListener(_ event: String, listener: AnyObject) {
        for known in self.listeners(event) where Self.is(known, listener, nil) { self.removeListener(event, known) }
    }

    /// Adds a listener: a method of an object, which isn't retained.
    @available(swift, obsoleted: 1.0)
    @objc(on:selector:target:) public func objcOn(_ event: String, selector: Selector, target: NSObject) {
        self.add(event, selector, of: target, isOnce: false)
    }

    /// Adds a listener that is called once: a method of an object.
    @available(swift, obsoleted: 1.0)
    @objc(once:selector:target:) public func objcOnce(_ event: String, selector: Selector, target: NSObject) {
        self.add(event, selector, of: target, isOnce: true)
    }

    /// Adds a listener: a method of an object, which isn't retained.
    @available(swift, obsoleted: 1.0)
    @objc(addListener:selector:target:) public func objcAddListener(_ event: String, selector: Selector, target: NSObject) {
        self.add(event, selector, of: target, isOnce: false)
    }

    /// Removes a listener: a method of an object.
    @available(swift, obsoleted: 1.0)
    @objc(removeListener:selector:target:) public func objcRemoveListener(_ event: String, selector: Selector, target: NSObject) {
        for known in self.listeners(event) where Self.is(known, target, selector) { self.removeListener(event, known) }
    }

    /// Calls the listeners of an event, with up to three arguments.
    @available(swift, obsoleted: 1.0)
    @objc(emit:args:) public func objcEmit(_ event: String, args: [Any]) {
        self.post(event, args.map { .object(ObjectBox($0)) })
    }

    /// Sends an event of primus-emitter with one argument.
    @available(swift, obsoleted: 1.0)
    @objc(send:data:) public func objcSend(_ event: String, data: Any) { _ = self.send(event, arguments: [data]) }

    /// Adds a transform: a block that may change the dictionary, and returns whether the message is passed on. The value for the key `data` is
    /// the message; other keys are the members of a message that is a dictionary.
    @available(swift, obsoleted: 1.0)
    @objc(transform:fn:) public func objcTransform(_ type: String, fn: @escaping @Sendable (NSMutableDictionary) -> Bool) {
        self.transform(type) { data in data.changeDictionary(fn) }
    }

    private static func `is`(_ listener: PrimusListener, _ object: AnyObject, _ selector: Selector?) -> Bool {
        (listener.owner as? ListenerOwner)?.isSame(object, selector) ?? false
    }

    private func add(_ event: String, block: AnyObject, isOnce: Bool) {
        typealias Block = @convention(block) (AnyObject?, AnyObject?, AnyObject?) -> Void
        let owner = ListenerOwner(block: block)
        let listener = self.add(event, isOnce: isOnce, on: .main) { arguments in
            // A block ignores arguments behind its last parameter.
            let function = unsafeBitCast(owner.block, to: Block.self)
            let objects = arguments.map { $0.objcObject }
            function(objects.first ?? nil, objects.count > 1 ? objects[1] : nil, objects.count > 2 ? objects[2] : nil)
            return nil
        }
        listener.owner = owner
    }

    private func add(_ event: String, _ selector: Selector, of target: NSObject, isOnce: Bool) {
        let owner = ListenerOwner(target: target, selector: selector)
        let listener = self.add(event, isOnce: isOnce, on: .main) { arguments in
            guard let target = owner.target, let selector = owner.selector else { return nil }
            let objects = arguments.map { $0.objcObject }
            switch NSStringFromSelector(selector).filter({ $0 == ":" }).count {
            case 0: _ = target.perform(selector)
            case 1: _ = target.perform(selector, with: objects.first ?? nil)
            default: _ = target.perform(selector, with: objects.first ?? nil, with: objects.count > 1 ? objects[1] : nil)
            }
            return nil
        }
        listener.owner = owner
    }
}

extension PrimusConnectOptions {
    /// Creates settings with strategies.
    @available(swift, obsoleted: 1.0)
    @objc(initWithStrategy:) public convenience init(objcStrategy: [NSNumber]) {
        self.init()
        self.objcStrategy = objcStrategy
    }

    /// Creates settings with a transformer.
    @available(swift, obsoleted: 1.0)
    @objc(initWithTransformerClass:) public convenience init(objcTransformerClass: AnyClass?) {
        self.init()
        self.transformerClass = objcTransformerClass
    }

    /// Creates settings with a transformer and strategies.
    @available(swift, obsoleted: 1.0)
    @objc(initWithTransformerClass:andStrategy:)
    public convenience init(objcTransformerClass: AnyClass?, andStrategy strategy: [NSNumber]) {
        self.init()
        self.transformerClass = objcTransformerClass
        self.objcStrategy = strategy
    }

    /// The events after which the client reconnects, as numbers.
    @available(swift, obsoleted: 1.0)
    @objc(strategy) public var objcStrategy: [NSNumber] {
        get { self.strategy.map { NSNumber(value: $0.rawValue) } }
        set { self.strategy = newValue.compactMap { PrimusReconnectionStrategy(rawValue: $0.intValue) } }
    }
}

extension PrimusReconnectOptions {
    /// The events after which the client reconnects, as numbers.
    @available(swift, obsoleted: 1.0)
    @objc(strategies) public var objcStrategies: [NSNumber] {
        get { self.strategies.map { NSNumber(value: $0.rawValue) } }
        set { self.strategies = newValue.compactMap { PrimusReconnectionStrategy(rawValue: $0.intValue) } }
    }
}

/// The identity of a listener of Objective-C.
///
/// `@unchecked Sendable`: nothing changes after the initialization, and the objects are only called on the queue of the listener.
final class ListenerOwner: @unchecked Sendable {
    let block: AnyObject?
    private(set) weak var target: NSObject?
    let selector: Selector?

    init(block: AnyObject) { (self.block, self.selector) = (block, nil) }

    init(target: NSObject, selector: Selector) {
        (self.block, self.selector) = (nil, selector)
        self.target = target
    }

    func isSame(_ object: AnyObject, _ selector: Selector?) -> Bool {
        if let block { return block === object }
        return self.target === object && self.selector == selector
    }
}

extension PrimusArgument {
    /// The argument as an object for Objective-C.
    var objcObject: AnyObject {
        if case .error(let error) = self { return error as NSError }
        if case .object(let acknowledge as PrimusAcknowledgement) = self {
            // As in primus-emitter-objc, a block without parameters.
            let block: @convention(block) () -> Void = { acknowledge() }
            return unsafeBitCast(block, to: AnyObject.self)
        }
        return self.any as AnyObject
    }
}
#endif
