#pragma once

// Nothing to call: whatever links this has librdkafka's broker threads wait where they would spin.
