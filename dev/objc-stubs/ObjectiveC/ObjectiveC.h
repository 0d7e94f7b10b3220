// A stub of Apple's Objective-C runtime for dev/objc-header: the declarations that the Swift compiler and this package use.
#pragma once
#pragma clang assume_nonnull begin

typedef signed char BOOL;
typedef long NSInteger;
typedef unsigned long NSUInteger;

@protocol NSObject
@end

__attribute__((objc_root_class))
@interface NSObject <NSObject>
- (instancetype)init;
- (id)copy;
@end

#pragma clang assume_nonnull end
