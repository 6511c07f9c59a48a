#pragma once

// Filled in with the JSON module.
int daybook_simdjson_padding(void);
