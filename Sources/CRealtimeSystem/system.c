#include "CRealtimeSystem.h"
