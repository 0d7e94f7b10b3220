// Objective-C code with every call that the Objective-C parts of the READMEs of PusherSwift make; see dev/objc-header.
@import Foundation;
#import "PusherSwift-Swift.h"

@interface AuthRequestBuilder : NSObject <AuthRequestBuilderProtocol>
- (NSURLRequest *)requestForSocketID:(NSString *)socketID channelName:(NSString *)channelName;
@end

@implementation AuthRequestBuilder

- (NSURLRequest *)requestForSocketID:(NSString *)socketID channelName:(NSString *)channelName {
    NSURLRequest *request = [[NSURLRequest alloc] initWithURL:[[NSURL alloc] initWithString:@"http://localhost:9292/pusher/auth"]];
    NSMutableURLRequest *mutableRequest =
        [[NSMutableURLRequest alloc] initWithURL:[[NSURL alloc] initWithString:@"http://localhost:9292/pusher/auth"]];
    NSString *dataStr = [NSString stringWithFormat:@"socket_id=%@&channel_name=%@", socketID, channelName];
    NSData *data = [dataStr dataUsingEncoding:NSUTF8StringEncoding];
    mutableRequest.HTTPBody = data;
    mutableRequest.HTTPMethod = @"POST";
    [mutableRequest addValue:@"myToken" forHTTPHeaderField:@"Authorization"];
    request = [mutableRequest copy];
    return request;
}

@end

@interface DummyDelegate : NSObject <PusherDelegate>
@property(nonatomic, strong) Pusher *client;
@end

@implementation DummyDelegate

- (void)changedConnectionState:(enum ConnectionState)old to:(enum ConnectionState)new_ {
    NSLog(@"%ld to %ld", (long)old, (long)new_);
}

- (void)debugLogWithMessage:(NSString *)message {
    NSLog(@"%@", message);
}

- (void)subscribedToChannelWithName:(NSString *)name {
    if ([name isEqual:@"presence-channel"]) {
        PusherPresenceChannel *presChan = [self.client.connection.channels findPresenceWithName:@"presence-channel"];
        NSLog(@"%@", [presChan members]);
        NSLog(@"%@", [presChan myId]);
    }
}

- (void)failedToSubscribeToChannelWithName:(NSString *)name
                                  response:(NSURLResponse *)response
                                      data:(NSString *)data
                                     error:(NSError *)error {
    NSLog(@"%@ %@ %@ %@", name, response, data, error);
}

- (void)receivedError:(PusherError *)error {
    NSNumber *code = error.codeOC;
    NSString *message = error.message;
    NSLog(@"%@ %@", code, message);
}

- (void)failedToDecryptEventWithEventName:(NSString *)eventName channelName:(NSString *)channelName data:(NSString *)data {
    NSLog(@"%@ %@ %@", eventName, channelName, data);
}

@end

@interface ViewController : NSObject <PusherDelegate>
@property(nonatomic, strong) Pusher *client;
@end

@implementation ViewController

- (void)viewDidLoad {
    self.client = [[Pusher alloc] initWithAppKey:@"YOUR_APP_KEY"];
    self.client.connection.delegate = self;
}

@end

void options(void) {
    OCAuthMethod *authMethod = [[OCAuthMethod alloc] initWithAuthEndpoint:@"https://your.authendpoint/pusher/auth"];
    OCPusherHost *host = [[OCPusherHost alloc] initWithCluster:@"eu"];
    PusherClientOptions *options = [[PusherClientOptions alloc] initWithOcAuthMethod:authMethod
                                                           attemptToReturnJSONObject:YES
                                                                       autoReconnect:YES
                                                                              ocHost:host
                                                                                port:nil
                                                                           encrypted:YES];
    Pusher *pusher = [[Pusher alloc] initWithAppKey:@"YOUR_APP_KEY" options:options];
    [pusher connect];

    authMethod = [[OCAuthMethod alloc] initWithSecret:@"YOUR_APP_SECRET"];
    options = [[PusherClientOptions alloc] initWithAuthMethod:authMethod];
    authMethod = [[OCAuthMethod alloc] initWithAuthRequestBuilder:[[AuthRequestBuilder alloc] init]];
    options = [[PusherClientOptions alloc] initWithAuthMethod:authMethod];
    host = [[OCPusherHost alloc] initWithHost:@"localhost"];
}

void members(void) {
    Pusher *pusher = [[Pusher alloc] initWithAppKey:@"YOUR_APP_KEY"];
    pusher.connection.userDataFetcher = ^PusherPresenceChannelMember *() {
        NSString *uuid = [[NSUUID UUID] UUIDString];
        return [[PusherPresenceChannelMember alloc] initWithUserId:uuid userInfo:nil];
    };
    // The delegate isn't retained.
    DummyDelegate *delegate = [[DummyDelegate alloc] init];
    pusher.connection.delegate = delegate;
    void (^onMemberChange)(PusherPresenceChannelMember *) = ^void(PusherPresenceChannelMember *member) {
        NSLog(@"%@", member);
    };
    PusherChannel *myPresenceChannel = [pusher subscribeWithChannelName:@"presence-my-channel"
                                                          onMemberAdded:onMemberChange
                                                        onMemberRemoved:onMemberChange];
    PusherPresenceChannel *chan = [pusher subscribeToPresenceChannelWithChannelName:@"presence-channel"];
    [chan bindWithEventName:@"pusher:subscription_succeeded"
                   callback:^void(NSDictionary *data) {
                       NSLog(@"Subscribed!");
                       NSLog(@"I can now access myId: %@", chan.myId);
                       NSLog(@"And here are my channel members: %@", chan.members);
                   }];
    NSLog(@"%@", myPresenceChannel);
}

void channels(void) {
    Pusher *pusher = [[Pusher alloc] initWithAppKey:@"YOUR_APP_KEY"];
    PusherChannel *chan = [pusher subscribeWithChannelName:@"my-channel"];
    PusherChannel *myPrivateChannel = [pusher subscribeWithChannelName:@"private-my-channel"];
    PusherChannel *privateEncryptedChannel = [pusher subscribeWithChannelName:@"private-encrypted-my-channel"];
    PusherPresenceChannel *presence = [pusher subscribeToPresenceChannelWithChannelName:@"presence-my-channel"];
    PusherChannel *myPresenceChannel = [pusher subscribeWithChannelName:@"presence-my-channel"];
    NSLog(@"%@ %@ %@ %@", myPrivateChannel, privateEncryptedChannel, presence, myPresenceChannel);

    NSString *callbackId = [chan bindWithEventName:@"new-price"
                                     eventCallback:^void(PusherEvent *event) {
                                         NSString *data = event.data;
                                         NSLog(@"%@", data);
                                     }];
    [chan unbindWithEventName:@"new-price" callbackId:callbackId];
    [chan bindWithEventName:@"new-price"
                   callback:^void(NSDictionary *data) {
                       NSString *price = data[@"price"];
                       NSString *company = data[@"company"];
                       NSLog(@"%@ is now priced at %@", company, price);
                   }];
    [chan bindWithEventName:@"price-update"
              eventCallback:^void(PusherEvent *event) {
                  NSString *dataString = event.data;
                  NSData *data = [dataString dataUsingEncoding:NSUTF8StringEncoding];
                  NSError *error;
                  NSDictionary *jsonObject = [NSJSONSerialization JSONObjectWithData:data options:kNilOptions error:&error];
                  NSString *price = jsonObject[@"price"];
                  NSString *company = jsonObject[@"company"];
                  NSLog(@"%@ is now priced at %@", company, price);
              }];
    [pusher bindWithEventCallback:^void(PusherEvent *event) {
        NSString *data = event.data;
        NSLog(@"%@", data);
    }];
    [pusher bind:^void(NSDictionary *event) {
        NSDictionary *data = event[@"data"];
        NSString *commenter = data[@"commenter"];
        NSString *message = data[@"message"];
        NSLog(@"%@ wrote %@", commenter, message);
    }];
    [pusher bind:^void(NSDictionary *data) {
        NSString *eventName = data[@"event"];
        if ([eventName isEqualToString:@"pusher:error"]) {
            NSString *errorMessage = data[@"data"][@"message"];
            NSLog(@"Error message: %@", errorMessage);
        }
    }];
}
