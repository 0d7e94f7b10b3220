// Objective-C code with every call that the README of Primus-Objc makes; see dev/objc-header.
@import Foundation;
#import "PrimusSwift-Swift.h"

@interface Counter : NSObject <PluginProtocol>
@end

@implementation Counter

- (instancetype)initWithPrimus:(Primus *)primus {
    self = [super init];
    if (self) {
        [primus on:@"data" selector:@selector(received:) target:self];
    }
    return self;
}

- (void)received:(id)data {
    NSLog(@"%@", data);
}

@end

void start(void) {
    NSURL *url = [[NSURL alloc] initWithString:@"http://localhost:9090/primus"];

    Primus *primus = [[Primus alloc] initWithURL:url];

    [primus on:@"reconnect" listener:^(PrimusReconnectOptions *options) {
        NSLog(@"attempt %ld", (long)options.attempt);
    }];

    [primus on:@"online" listener:^{
        NSLog(@"online");
    }];

    [primus on:@"offline" listener:^{
        NSLog(@"offline");
    }];

    [primus on:@"open" listener:^{
        NSLog(@"open");
    }];

    [primus on:@"close" listener:^{
        NSLog(@"close");
    }];

    [primus on:@"error" listener:^(NSError *error) {
        NSLog(@"error %ld: %@", (long)error.code, error);
    }];

    [primus on:@"data" listener:^(NSDictionary *data, id raw) {
        NSLog(@"data %@ %@", data, raw);
    }];

    [primus once:@"end" listener:^{
        NSLog(@"end");
    }];

    [primus write:@{ @"my-data": [NSNumber numberWithInt:123] }];
    [primus write:@"example-data"];
    [primus write:[@"example-data" dataUsingEncoding:NSUTF8StringEncoding]];
    [primus send:@"news" data:@"example-data"];
    [primus emit:@"event" args:@[ @1 ]];
    [primus id:^(NSString *socketId) {
        NSLog(@"%@", socketId);
    }];
    [primus transform:@"incoming" fn:^BOOL(NSMutableDictionary *data) {
        NSLog(@"%@", data);
        return YES;
    }];
    if (primus.readyState == kPrimusReadyStateOpen) {
        [primus end];
    }
}

void startWithOptions(NSURLRequest *request) {
    PrimusConnectOptions *options = [[PrimusConnectOptions alloc] init];

    options.transformerClass = SocketRocketClient.class;
    options.strategy = @[ @(kPrimusReconnectionStrategyTimeout) ];
    options.timeout = 200;
    options.manual = YES;
    options.reconnect.retries = 3;
    options.plugins = @{ @"emitter": PrimusEmitter.class, @"counter": Counter.class };

    Primus *primus = [[Primus alloc] initWithURLRequest:request options:options];

    [primus open];

    NSURL *url = [NSURL URLWithString:@"http://localhost:9090/primus"];
    Primus *other = [[Primus alloc] initWithURL:url options:options];
    [other open];

    NSMutableURLRequest *authorized = [NSMutableURLRequest requestWithURL:url];
    [authorized setValue:@"Bearer token" forHTTPHeaderField:@"Authorization"];
    Primus *third = [[Primus alloc] initWithURLRequest:authorized];
    [third end];
}
