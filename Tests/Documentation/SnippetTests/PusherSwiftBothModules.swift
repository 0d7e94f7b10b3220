// snippet:pusherswift-both
import PusherChannels
import PusherSwift

import class PusherChannels.PusherChannel
import struct PusherChannels.PusherEvent

func prices(_ pusher: Pusher) throws -> EventSequence<PusherEvent> {
    let channel: PusherChannel = try pusher.client.subscribe("prices")
    return channel.events("price")
}
// end

// Names of PusherSwift, which the module's name selects.

func selectedOfPusherSwift(_ pusher: Pusher) -> PusherSwift.PusherChannel { pusher.subscribe("prices") }
