/// A sorted map whose copies share their contents.
///
/// It is a B+ tree of small arrays. A change copies only the arrays on the path to its entry, and only those that another copy of the map
/// shares; with an array or a dictionary, the first change after each copy would copy all entries. Searches, changes and the access to a
/// position take logarithmic time. An empty map allocates no memory.
struct SharedMap<Key: Comparable & Sendable, Value: Sendable>: Sendable {
    typealias Element = (key: Key, value: Value)

    /// The maximum number of elements or children of a node.
    fileprivate static var capacity: Int { 32 }

    /// A leaf, which has elements, or a branch, which has children. Only a node under construction has neither.
    fileprivate struct Node: Sendable {
        var elements: [Element] = []
        var children: [Node] = []
        /// The lowest key.
        var first: Key
        /// The number of elements of the node and of all nodes below it.
        var count: Int

        init(elements: [Element]) {
            self.elements = elements
            self.first = elements[0].key
            self.count = elements.count
        }

        init(children: [Node]) {
            self.children = children
            self.first = children[0].first
            self.count = children.reduce(0) { $0 + $1.count }
        }

        var isLeaf: Bool { self.children.isEmpty }
    }

    private var root: Node?

    /// Creates an empty map.
    init() {}

    /// Creates a map from elements in the order of their keys, which must be unique.
    init(sorted elements: [Element]) {
        var nodes = Self.chunks(elements).map { Node(elements: $0) }
        while nodes.count > 1 { nodes = Self.chunks(nodes).map { Node(children: $0) } }
        self.root = nodes.first
    }

    private static func chunks<Item>(_ items: [Item]) -> [[Item]] {
        stride(from: 0, to: items.count, by: self.capacity).map { Array(items[$0..<Swift.min(items.count, $0 + self.capacity)]) }
    }

    var count: Int { self.root?.count ?? 0 }
    var isEmpty: Bool { self.root == nil }

    /// The last element.
    var last: Element? {
        guard var node = self.root else { return nil }
        while let child = node.children.last { node = child }
        return node.elements.last
    }

    subscript(key: Key) -> Value? {
        guard var node = self.root else { return nil }
        while !node.isLeaf { node = node.children[node.child(for: key)] }
        return node.elementIndex(of: key).map { node.elements[$0].value }
    }

    /// Accesses the element at a position in the order of the keys.
    subscript(position position: Int) -> Element {
        guard var node = self.root, (0..<node.count).contains(position) else { preconditionFailure("The position is out of range.") }
        var position = position
        while !node.isLeaf {
            var child = 0
            while position >= node.children[child].count {
                position -= node.children[child].count
                child += 1
            }
            node = node.children[child]
        }
        return node.elements[position]
    }

    /// Adds a value for a key that the map doesn't contain.
    mutating func insert(_ value: Value, forKey key: Key) {
        guard self.root != nil else {
            self.root = Node(elements: [(key, value)])
            return
        }
        if let right = self.root?.insert((key, value)), let left = self.root.take() { self.root = Node(children: [left, right]) }
    }

    /// Removes the value for a key and returns it.
    @discardableResult
    mutating func removeValue(forKey key: Key) -> Value? {
        guard let value = self.root?.remove(key) else { return nil }
        while let root, !root.isLeaf, root.children.count == 1 { self.root = root.children[0] }
        if self.root?.count == 0 { self.root = nil }
        return value
    }
}

extension SharedMap.Node {
    /// The index of the child that contains the key, if the map does.
    fileprivate func child(for key: Key) -> Int { max(0, Self.firstIndex(in: self.children) { $0.first > key } - 1) }

    fileprivate func elementIndex(of key: Key) -> Int? {
        let index = Self.firstIndex(in: self.elements) { $0.key >= key }
        return index < self.elements.count && self.elements[index].key == key ? index : nil
    }

    /// The index of the first item that matches, if all items after it match, too.
    private static func firstIndex<Item>(in items: [Item], where matches: (Item) -> Bool) -> Int {
        var (low, high) = (0, items.count)
        while low < high {
            let middle = (low + high) / 2
            if matches(items[middle]) { high = middle } else { low = middle + 1 }
        }
        return low
    }

    /// - Returns: The elements or children that exceed the capacity, as a node that follows this one.
    fileprivate mutating func insert(_ element: SharedMap.Element) -> Self? {
        if self.isLeaf {
            self.elements.insert(element, at: Self.firstIndex(in: self.elements) { $0.key > element.key })
        } else {
            let index = self.child(for: element.key)
            if let right = self.children[index].insert(element) { self.children.insert(right, at: index + 1) }
        }
        self.count += 1
        self.first = min(self.first, element.key)
        return self.split(after: element.key)
    }

    private mutating func split(after key: Key) -> Self? {
        let size = max(self.elements.count, self.children.count)
        guard size > SharedMap.capacity else { return nil }
        // Keys are often added in ascending order. The nodes then stay full.
        let isLast = self.isLeaf ? self.elements[size - 1].key == key : self.children[size - 1].first == key
        let kept = isLast ? size - 1 : size / 2
        let right = self.isLeaf ? Self(elements: Array(self.elements[kept...])) : Self(children: Array(self.children[kept...]))
        if self.isLeaf { self.elements.removeLast(size - kept) } else { self.children.removeLast(size - kept) }
        self.count -= right.count
        return right
    }

    fileprivate mutating func remove(_ key: Key) -> Value? {
        let value: Value?
        if self.isLeaf {
            value = self.elementIndex(of: key).map { self.elements.remove(at: $0).value }
        } else {
            let index = self.child(for: key)
            value = self.children[index].remove(key)
            if value != nil { self.mergeChildren(at: index) }
        }
        guard let value else { return nil }
        self.count -= 1
        if let first = self.children.first?.first ?? self.elements.first?.key { self.first = first }
        return value
    }

    /// Removes a child without elements, and merges a small child with the next one, so that removed elements leave no sparse nodes.
    private mutating func mergeChildren(at index: Int) {
        if self.children[index].count == 0 {
            self.children.remove(at: index)
            return
        }
        let left = min(index, self.children.count - 2)
        guard left >= 0 else { return }
        let (size, next) = (self.children[left].size, self.children[left + 1].size)
        guard size + next <= SharedMap.capacity / 2 else { return }
        let right = self.children.remove(at: left + 1)
        self.children[left].elements += right.elements
        self.children[left].children += right.children
        self.children[left].count += right.count
    }

    /// The number of elements or children.
    private var size: Int { max(self.elements.count, self.children.count) }
}

extension SharedMap: Sequence {
    /// Visits the elements in the order of their keys.
    struct Iterator: IteratorProtocol, Sendable {
        /// The nodes from the root to the current leaf, each with the index of its next child or element.
        private var path: [(node: Node, next: Int)] = []

        fileprivate init(_ root: Node?) {
            if let root { self.descend(to: root) }
        }

        private mutating func descend(to node: Node) {
            var node = node
            while !node.isLeaf {
                self.path.append((node, 1))
                node = node.children[0]
            }
            self.path.append((node, 0))
        }

        mutating func next() -> Element? {
            while let (node, next) = self.path.last {
                if next == (node.isLeaf ? node.elements.count : node.children.count) {
                    self.path.removeLast()
                } else {
                    self.path[self.path.count - 1].next += 1
                    if node.isLeaf { return node.elements[next] }
                    self.descend(to: node.children[next])
                }
            }
            return nil
        }
    }

    func makeIterator() -> Iterator { Iterator(self.root) }
}
