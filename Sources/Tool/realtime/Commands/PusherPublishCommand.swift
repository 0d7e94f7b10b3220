internal import CommandLineSupport
internal import PusherChannels

extension PusherPublishCommand: Command {
    func run(_ console: Console) async throws(ToolFailure) {
        let publisher =
            switch self.place {
            case .cluster(let cluster): PusherPublisher(appID: self.appID, key: self.key, secret: self.secret, cluster: cluster)
            case .endpoint(let endpoint): PusherPublisher(appID: self.appID, key: self.key, secret: self.secret, endpoint: endpoint)
            }
        do throws(PusherError) {
            try await publisher.publish(self.event, to: [self.channel], data: self.data, except: self.socketID)
        } catch {
            throw ToolFailure(error.message)
        }
        console.say(
            Line(
                [.init("published", .good), " ", .init(self.event, .good), " to ", .init(self.channel, .name)],
                ["type": "published", "channel": .string(self.channel), "event": .string(self.event)]))
    }
}
