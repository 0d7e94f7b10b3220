import PusherWire
import RealtimeCore
import TestSupport
import Testing

@testable import PusherChannels

/// A subscription whose filter changes in every state.
@Suite struct ChannelSubscriptionTests {
    private static let eu = PusherFilter.equals("region", "eu"), us = PusherFilter.equals("region", "us")
    private static let error = PusherError(.subscriptionRejected, "It was rejected.")

    /// The states in which a filter can change.
    enum Stage: CaseIterable, Sendable { case waiting, subscribing, outdated, subscribed, replacing, replacingOutdated, failed }

    private static func subscription(_ stage: Stage) -> ChannelSubscription {
        var subscription = ChannelSubscription()
        _ = subscription.change(to: self.eu)
        if stage == .waiting { return subscription }
        _ = subscription.begin(authorizing: nil)
        switch stage {
        case .waiting, .subscribing: break
        case .outdated: _ = subscription.change(to: self.us)
        case .failed: _ = subscription.failed(self.error)
        case .subscribed: _ = subscription.confirmed()
        case .replacing, .replacingOutdated:
            _ = subscription.confirmed()
            _ = subscription.change(to: self.us)
            _ = subscription.replace()
            _ = subscription.begin(authorizing: nil)
            if stage == .replacingOutdated { _ = subscription.change(to: self.eu) }
        }
        return subscription
    }

    @Test func `only a subscribed channel is subscribed again for another filter`() {
        for stage in Stage.allCases {
            var subscription = Self.subscription(stage)
            let mustReplace = subscription.change(to: .exists("other"))
            expectEqual(mustReplace, (stage == .subscribed), "\(stage)")
            expectEqual(subscription.filter, .exists("other"))
            let isUnchanged = subscription.change(to: .exists("other"))
            expect(!isUnchanged)
        }
    }

    @Test(arguments: [
        (Stage.waiting, ChannelSubscription.Confirmation.unexpected), (.subscribing, .subscribed(replaced: false)),
        (.outdated, .outdated(replaced: false)), (.subscribed, .repeated), (.replacing, .subscribed(replaced: true)),
        (.replacingOutdated, .outdated(replaced: true)), (.failed, .unexpected),
    ])
    func `a confirmation is that of the current filter or of an outdated one`(
        stage: Stage, expected: ChannelSubscription.Confirmation
    ) {
        var subscription = Self.subscription(stage)
        expectEqual(subscription.confirmed(), expected)
        // The filter is settled: nothing else is outdated.
        if subscription.state == .subscribed { expect(subscription.confirmed() == .repeated && subscription.isReceiving) }
    }

    @Test func `the server sends events while it has a subscription, also one with an earlier filter`() {
        expectEqual(Stage.allCases.filter { Self.subscription($0).isReceiving }, [.subscribed, .replacing, .replacingOutdated])
    }

    @Test func `a failure tells what the server still has`() {
        for stage in Stage.allCases {
            var subscription = Self.subscription(stage)
            let end = subscription.failed(Self.error)
            switch stage {
            case .waiting, .failed: expectNil(end)
            case .subscribing, .outdated: expectEqual(end, .init(wasReceiving: false, needsUnsubscribe: false))
            case .subscribed: expectEqual(end, .init(wasReceiving: true, needsUnsubscribe: false))
            case .replacing, .replacingOutdated: expectEqual(end, .init(wasReceiving: true, needsUnsubscribe: true))
            }
            expect(!subscription.isReceiving)
        }
    }

    @Test func `the loss of a connection settles the filter`() {
        for stage in Stage.allCases {
            var subscription = Self.subscription(stage)
            let (wasReceiving, filter) = (subscription.isReceiving, subscription.filter)
            expectEqual(subscription.connectionLost(), .init(wasReceiving: wasReceiving, needsUnsubscribe: false))
            expect(subscription.canBegin && subscription.filter == filter && subscription.unsubscribe().needsUnsubscribe == false)
            _ = subscription.begin(authorizing: nil)
            expectEqual(subscription.confirmed(), .subscribed(replaced: false))
        }
    }

    @Test func `the end of an authorization cancels it`() {
        let work = WorkID(rawValue: 7)
        var subscription = ChannelSubscription()
        _ = subscription.begin(authorizing: work)
        expectEqual(subscription.unsubscribe(), .init(cancelled: work, wasReceiving: false, needsUnsubscribe: false))
        var failed = subscription
        expectEqual(failed.failed(Self.error)?.cancelled, work)
        expectEqual(subscription.connectionLost().cancelled, work)
    }

    @Test func `a time limit withdraws a first subscription only`() {
        expectEqual(Stage.allCases.filter { Self.subscription($0).awaitsFirstConfirmation }, [.subscribing, .outdated])
    }
}
