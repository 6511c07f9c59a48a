#include "simdjson.h"

extern "C" {
#include "CSimdJSON.h"

int daybook_simdjson_padding(void) { return static_cast<int>(simdjson::SIMDJSON_PADDING); }
}
