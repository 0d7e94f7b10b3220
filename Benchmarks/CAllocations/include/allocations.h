#ifndef CALLOCATIONS_H
#define CALLOCATIONS_H

/// The number of blocks that this process has allocated, or 0 if the system's library has no other names for its functions.
unsigned long allocation_count(void);

#endif
