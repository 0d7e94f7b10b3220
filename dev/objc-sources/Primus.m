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
        NSLog(@"[reconnect] - We are scheduling a new reconnect attempt %ld", (long)options.attempt);
    }];

    [primus on:@"online" listener:^{
        NSLog(@"[network] - We have regained control over our internet connection.");
    }];

    [primus on:@"error" listener:^(NSError *error) {
        NSLog(@"[error] - Error: %@", error);
    }];

    [primus on:@"data" listener:^(NSDictionary *data, id raw) {
        NSLog(@"[data] - Received data: %@ %@", data, raw);
    }];

    [primus once:@"end" listener:^{
        NSLog(@"[end] - The connection has ended.");
    }];

    [primus write:@{ @"my-data": [NSNumber numberWithInt:123] }];
    [primus write:@"example-data"];
    [primus send:@"news" data:@"example-data"];
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
    options.timeout = 200;
    options.manual = YES;
    options.reconnect.retries = 3;
    options.plugins = @{ @"emitter": PrimusEmitter.class, @"counter": Counter.class };

    Primus *primus = [[Primus alloc] initWithURLRequest:request options:options];

    // Calling 'open' will start the connection
    [primus open];
}
