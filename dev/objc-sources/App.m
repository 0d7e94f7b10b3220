// A class of an app in Objective-C that uses all parts of PusherSwift; see dev/objc-header.
@import Foundation;
#import "PusherSwift-Swift.h"

@interface PriceFeed : NSObject <PusherDelegate, Authorizer>
@property(nonatomic, strong, readonly) Pusher *pusher;
@property(nonatomic, copy) void (^onPrice)(NSString *symbol, NSString *price);
- (instancetype)initWithKey:(NSString *)key;
- (void)start;
- (void)stop;
@end

@implementation PriceFeed {
    NSString *_callbackId;
    PusherPresenceChannel *_room;
}

- (instancetype)initWithKey:(NSString *)key {
    if ((self = [super init])) {
        PusherClientOptions *options =
            [[PusherClientOptions alloc] initWithOcAuthMethod:[[OCAuthMethod alloc] initWithAuthorizer:self]
                                                autoReconnect:YES
                                                       ocHost:[[OCPusherHost alloc] initWithCluster:@"eu"]
                                                         port:nil
                                                       useTLS:YES
                                              activityTimeout:nil];
        _pusher = [[Pusher alloc] initWithAppKey:key options:options];
        _pusher.delegate = self;
        _pusher.connection.OCReconnectAttemptsMax = @10;
        _pusher.connection.OCMaxReconnectGapInSeconds = @30;
    }
    return self;
}

- (void)start {
    PusherChannel *prices = [self.pusher subscribeWithChannelName:@"private-prices"];
    __weak PriceFeed *feed = self;
    _callbackId = [prices bindWithEventName:@"price"
                              eventCallback:^(PusherEvent *event) {
                                  NSLog(@"%@ %@ %@", event.eventName, event.channelName, event.userId);
                                  if (feed.onPrice && event.data) feed.onPrice(@"ACME", event.data);
                                  NSLog(@"%@", [event propertyWithKey:@"event"]);
                              }];
    _room = [self.pusher subscribeToPresenceChannelWithChannelName:@"presence-room"];
    [self.pusher connect];
}

- (void)greet {
    [_room triggerWithEventName:@"client-greeting" data:@{@"name" : @"Anna"}];
    for (PusherPresenceChannelMember *member in _room.members) NSLog(@"%@ %@", member.userId, member.userInfo);
    NSLog(@"%@ %@ %@", _room.myId, [_room me], [_room findMemberWithUserId:@"anna"]);
}

- (void)stop {
    PusherChannel *prices = [self.pusher.connection.channels findWithName:@"private-prices"];
    if (_callbackId) [prices unbindWithEventName:@"price" callbackId:_callbackId];
    [prices unbindAllForEventName:@"price"];
    [prices unbindAll];
    [self.pusher unsubscribe:@"private-prices"];
    [self.pusher unsubscribeAll];
    [self.pusher unbindAll];
    [self.pusher disconnect];
}

- (void)fetchAuthValueWithSocketID:(NSString *)socketID
                       channelName:(NSString *)channelName
                 completionHandler:(void (^)(PusherAuth *))completionHandler {
    completionHandler([[PusherAuth alloc] initWithAuth:@"key:signature" channelData:nil sharedSecret:nil]);
}

- (void)changedConnectionStateFrom:(enum ConnectionState)old to:(enum ConnectionState)new_ {
    switch (new_) {
    case ConnectionStateConnected: [self greet]; break;
    case ConnectionStateConnecting:
    case ConnectionStateDisconnecting:
    case ConnectionStateDisconnected:
    case ConnectionStateReconnecting: break;
    }
}

- (void)receivedError:(PusherError *)error {
    NSLog(@"%@ %@", error.codeOC, error.message);
}

@end
