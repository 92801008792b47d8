/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Fuzz target: GDB's agent expressions, as QEMU evaluates them
 *
 * The input is the bytecode.  Whatever it is, evaluation ends after at most as
 * many operations as it has bytes, and has the same result again.
 */

#include "qemu/osdep.h"
#include "agent-expression.h"
#include "fuzz.h"

#define UNTOUCHED   0x5555

static size_t reads;

static bool read_reg(void *opaque, unsigned number, uint64_t *value)
{
    reads++;
    *value = number - 3;
    return number < 1000;
}

static bool read_memory(void *opaque, uint64_t addr, unsigned size,
                        uint64_t *value)
{
    fuzz_require(size == 1 || size == 2 || size == 4 || size == 8);
    reads++;
    *value = ~addr * size;
    return addr % 3;
}

int fuzz_input(const uint8_t *data, size_t size)
{
    const AgentTarget target = { .reg = read_reg, .memory = read_memory };
    uint64_t value = UNTOUCHED, again = UNTOUCHED;
    bool ok;

    reads = 0;
    ok = agent_expression_value(data, size, &target, &value);
    fuzz_require(reads <= size);
    fuzz_require(agent_expression_value(data, size, &target, &again) == ok);
    fuzz_require(value == again);
    if (ok) {
        fuzz_accepted();
    } else {
        fuzz_require(value == UNTOUCHED);
    }
    return 0;
}
