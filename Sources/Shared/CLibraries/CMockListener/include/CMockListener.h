#pragma once

// Filled in with the Kafka module.
void daybook_mock_listener_use_port(unsigned short port);
