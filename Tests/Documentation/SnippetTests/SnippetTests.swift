import TestSupport
import Testing

/// The Swift code in the documentation is code of this target: each block is a copy of a snippet, and each snippet is
/// shown somewhere. A block that fits none is changed together with its snippet, or gets one.
@Suite(.usesSockets) struct SnippetTests {
    @Test func `every Swift block of the documentation is a snippet of this target`() throws {
        let known = Set(try Snippets.ofThisTarget().map(\.text))
        let blocks = try Snippets.ofTheDocumentation()
        #expect(blocks.count > 20)
        for block in blocks where !known.contains(block.text) {
            Issue.record("\(block.place): no snippet in Tests/Documentation/SnippetTests reads like this:\n\(block.text)")
        }
    }

    @Test func `every snippet is shown`() throws {
        let shown = Set(try Snippets.ofTheDocumentation().map(\.text))
        for snippet in try Snippets.ofThisTarget() where !shown.contains(snippet.text) {
            Issue.record("\(snippet.place): nothing in the documentation shows this snippet:\n\(snippet.text)")
        }
    }

    @Test func `indentation is taken off and kept inside`() {
        let text = """
                /// ```swift
                ///     if it {
                ///         fits()
                ///
                ///     }
                /// ```
            """
        #expect(Snippets.blocks(in: text, place: "here", isSwift: true).map(\.text) == ["if it {\n    fits()\n\n}"])
    }

    @Test func `a block that is never closed is found`() {
        #expect(Snippets.blocks(in: "```swift\nrun()\n", place: "here", isSwift: false).map(\.text) == ["run()"])
    }

    @Test func `blocks in other languages are not looked at`() {
        #expect(Snippets.blocks(in: "```sh\nswift test\n```\n```\nplain\n```", place: "here", isSwift: false).isEmpty)
    }
}
