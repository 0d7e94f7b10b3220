import TestSupport
import Testing

/// Checks that the Swift code in the documentation compiles: each block must be a copy of a snippet in this target, and each snippet
/// must appear in the documentation. Change a block and its snippet together, and add a snippet for a new block.
@Suite(.usesSockets) struct SnippetTests {
    @Test func `every Swift block in the documentation is a snippet of this target`() throws {
        let known = Set(try Snippets.ofThisTarget().map(\.text))
        let blocks = try Snippets.ofTheDocumentation()
        #expect(blocks.count > 20)
        for block in blocks where !known.contains(block.text) {
            Issue.record("\(block.location): no snippet in Tests/Documentation/SnippetTests has this text:\n\(block.text)")
        }
    }

    @Test func `every snippet appears in the documentation`() throws {
        let documented = Set(try Snippets.ofTheDocumentation().map(\.text))
        for snippet in try Snippets.ofThisTarget() where !documented.contains(snippet.text) {
            Issue.record("\(snippet.location): the documentation does not contain this snippet:\n\(snippet.text)")
        }
    }

    @Test func `common indentation is removed and relative indentation is kept`() {
        let text = """
                /// ```swift
                ///     if condition {
                ///         run()
                ///
                ///     }
                /// ```
            """
        #expect(Snippets.blocks(in: text, location: "file", isSwift: true).map(\.text) == ["if condition {\n    run()\n\n}"])
    }

    @Test func `a block that is not closed is detected`() {
        #expect(Snippets.blocks(in: "```swift\nrun()\n", location: "file", isSwift: false).map(\.text) == ["run()"])
    }

    @Test func `blocks in other languages are ignored`() {
        #expect(Snippets.blocks(in: "```sh\nswift test\n```\n```\nplain\n```", location: "file", isSwift: false).isEmpty)
    }
}
