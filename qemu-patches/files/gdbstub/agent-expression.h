/*
 * GDB's agent expressions
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#ifndef GDBSTUB_AGENT_EXPRESSION_H
#define GDBSTUB_AGENT_EXPRESSION_H

/**
 * struct AgentTarget - what an expression is about
 * @reg:    read a register
 * @memory: read @size bytes: 1, 2, 4 or 8
 *
 * They return false if there is no such thing.
 */
typedef struct AgentTarget {
    bool (*reg)(void *opaque, unsigned number, uint64_t *value);
    bool (*memory)(void *opaque, uint64_t addr, unsigned size,
                   uint64_t *value);
    void *opaque;
} AgentTarget;

/**
 * agent_expression_value - evaluate bytecode as GDB compiles it
 *
 * "Bytecode Descriptions" in GDB's manual has its operations.  Those that
 * collect data, print, or use variables of a trace are none of an expression's,
 * and no jump goes back: evaluation ends after @size operations at most.
 *
 * Returns false, and leaves *@value alone, if the expression has no value.
 */
bool agent_expression_value(const uint8_t *code, size_t size,
                            const AgentTarget *target, uint64_t *value);

#endif
