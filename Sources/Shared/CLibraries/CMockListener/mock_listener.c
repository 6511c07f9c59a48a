#include "CMockListener.h"

void daybook_mock_listener_use_port(unsigned short port) { (void)port; }
