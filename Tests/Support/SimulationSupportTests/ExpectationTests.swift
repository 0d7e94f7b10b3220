import RealtimeSystem
import TestSupport
import Testing

/// The functions in place of `#expect`, which judges them here: each must fail where it should, and say what it compared.
@Suite struct ExpectationTests {
    @Test func `a false condition is an issue with the text of its call`() {
        let issues = self.issues { expect("abc".isEmpty, "a comment") }
        #expect(issues == [#"let issues = self.issues { expect("abc".isEmpty, "a comment") }: false: a comment"#])
        #expect(self.issues { expect("".isEmpty) } == [])
    }

    @Test func `values that differ are an issue with both`() {
        let issues = self.issues {
            expectEqual(
                "a".count, 2)
        }
        #expect(issues == [#"expectEqual("a".count, 2): 1 is not 2"#])
        #expect(self.issues { expectEqual([1], [1]) } == [])
    }

    @Test func `a value that should be missing is an issue with the value`() {
        let value: Int? = 3
        let issues = self.issues {
            expectNil(value)
        }
        #expect(issues == ["expectNil(value): 3 is not nil"])
        #expect(self.issues { expectNil(Int?.none) } == [])
    }

    /// The texts of the issues that the body records.
    private func issues(_ body: () -> Void) -> [String] {
        let texts = Lock<[String]>([])
        withKnownIssue(isIntermittent: true) {
            body()
        } matching: { issue in
            texts.withLock { $0 += issue.comments.map(\.rawValue) }
            return true
        }
        return texts.withLock { $0 }
    }
}
