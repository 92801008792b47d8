/*
 * GDB's agent expressions
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#include "qemu/osdep.h"
#include "agent-expression.h"

#define STACK   100

typedef enum Op {
    OP_ADD = 0x02,
    OP_SUB,
    OP_MUL,
    OP_DIV_SIGNED,
    OP_DIV_UNSIGNED,
    OP_REM_SIGNED,
    OP_REM_UNSIGNED,
    OP_LSH,
    OP_RSH_SIGNED,
    OP_RSH_UNSIGNED,
    OP_LOG_NOT = 0x0e,
    OP_BIT_AND,
    OP_BIT_OR,
    OP_BIT_XOR,
    OP_BIT_NOT,
    OP_EQUAL,
    OP_LESS_SIGNED,
    OP_LESS_UNSIGNED,
    OP_EXT,
    OP_REF8,
    OP_REF16,
    OP_REF32,
    OP_REF64,
    OP_IF_GOTO = 0x20,
    OP_GOTO,
    OP_CONST8,
    OP_CONST16,
    OP_CONST32,
    OP_CONST64,
    OP_REG,
    OP_END,
    OP_DUP,
    OP_POP,
    OP_ZERO_EXT,
    OP_SWAP,
    OP_PICK = 0x32,
    OP_ROT,
} Op;

/* @at: what comes next.  What fails once has failed. */
typedef struct Machine {
    const uint8_t *code;
    size_t size;
    size_t at;
    uint64_t stack[STACK];
    unsigned depth;
    const AgentTarget *target;
    bool failed;
} Machine;

/* An operand, which is big-endian */
static uint64_t operand(Machine *m, unsigned size)
{
    uint64_t value = 0;

    if (size > m->size - m->at) {
        m->failed = true;
        return 0;
    }
    while (size--) {
        value = value << 8 | m->code[m->at++];
    }
    return value;
}

static void push(Machine *m, uint64_t value)
{
    if (m->depth == STACK) {
        m->failed = true;
    } else {
        m->stack[m->depth++] = value;
    }
}

static uint64_t pop(Machine *m)
{
    if (!m->depth) {
        m->failed = true;
        return 0;
    }
    return m->stack[--m->depth];
}

static void jump(Machine *m, size_t to)
{
    if (to < m->at) {
        m->failed = true;
    } else {
        m->at = to;
    }
}

static uint64_t divide(Machine *m, Op op, uint64_t a, uint64_t b)
{
    if (!b) {
        m->failed = true;
        return 0;
    }
    switch (op) {
    case OP_DIV_SIGNED:
        return b == UINT64_MAX ? -a : (uint64_t)((int64_t)a / (int64_t)b);
    case OP_REM_SIGNED:
        return b == UINT64_MAX ? 0 : (uint64_t)((int64_t)a % (int64_t)b);
    case OP_DIV_UNSIGNED:
        return a / b;
    default:
        return a % b;
    }
}

static uint64_t shift(Op op, uint64_t a, uint64_t by)
{
    bool negative = op == OP_RSH_SIGNED && (int64_t)a < 0;

    if (by > 63) {
        return negative ? UINT64_MAX : 0;
    }
    if (op == OP_LSH) {
        return a << by;
    }
    return negative ? ~(~a >> by) : a >> by;
}

static uint64_t binary(Machine *m, Op op, uint64_t a, uint64_t b)
{
    switch (op) {
    case OP_ADD:
        return a + b;
    case OP_SUB:
        return a - b;
    case OP_MUL:
        return a * b;
    case OP_DIV_SIGNED:
    case OP_DIV_UNSIGNED:
    case OP_REM_SIGNED:
    case OP_REM_UNSIGNED:
        return divide(m, op, a, b);
    case OP_LSH:
    case OP_RSH_SIGNED:
    case OP_RSH_UNSIGNED:
        return shift(op, a, b);
    case OP_BIT_AND:
        return a & b;
    case OP_BIT_OR:
        return a | b;
    case OP_BIT_XOR:
        return a ^ b;
    case OP_EQUAL:
        return a == b;
    case OP_LESS_SIGNED:
        return (int64_t)a < (int64_t)b;
    default:
        return a < b;
    }
}

/* What @bits are as a number of 64 bits */
static uint64_t extend(Machine *m, Op op, uint64_t value, unsigned bits)
{
    uint64_t sign;

    if (!bits) {
        m->failed = true;
    }
    if (!bits || bits > 63) {
        return value;
    }
    value &= (1ull << bits) - 1;
    sign = op == OP_EXT ? 1ull << (bits - 1) : 0;
    return (value ^ sign) - sign;
}

static uint64_t load(Machine *m, uint64_t addr, unsigned size)
{
    uint64_t value = 0;

    if (!m->failed &&
        !m->target->memory(m->target->opaque, addr, size, &value)) {
        m->failed = true;
    }
    return value;
}

static uint64_t load_reg(Machine *m, unsigned number)
{
    uint64_t value = 0;

    if (!m->failed && !m->target->reg(m->target->opaque, number, &value)) {
        m->failed = true;
    }
    return value;
}

static uint64_t pick(Machine *m, unsigned n)
{
    if (n >= m->depth) {
        m->failed = true;
        return 0;
    }
    return m->stack[m->depth - 1 - n];
}

/* The one on top goes below the two others. */
static void rotate(Machine *m)
{
    uint64_t c = pop(m);
    uint64_t b = pop(m);
    uint64_t a = pop(m);

    push(m, c);
    push(m, a);
    push(m, b);
}

static void step(Machine *m, Op op)
{
    uint64_t a, b;

    switch (op) {
    case OP_ADD ... OP_RSH_UNSIGNED:
    case OP_BIT_AND ... OP_BIT_XOR:
    case OP_EQUAL ... OP_LESS_UNSIGNED:
        b = pop(m);
        a = pop(m);
        push(m, binary(m, op, a, b));
        break;
    case OP_LOG_NOT:
        push(m, !pop(m));
        break;
    case OP_BIT_NOT:
        push(m, ~pop(m));
        break;
    case OP_EXT:
    case OP_ZERO_EXT:
        b = operand(m, 1);
        push(m, extend(m, op, pop(m), b));
        break;
    case OP_REF8 ... OP_REF64:
        push(m, load(m, pop(m), 1u << (op - OP_REF8)));
        break;
    case OP_IF_GOTO:
        b = operand(m, 2);
        if (pop(m)) {
            jump(m, b);
        }
        break;
    case OP_GOTO:
        b = operand(m, 2);
        jump(m, b);
        break;
    case OP_CONST8 ... OP_CONST64:
        push(m, operand(m, 1u << (op - OP_CONST8)));
        break;
    case OP_REG:
        b = operand(m, 2);
        push(m, load_reg(m, b));
        break;
    case OP_DUP:
        push(m, pick(m, 0));
        break;
    case OP_POP:
        pop(m);
        break;
    case OP_SWAP:
        b = pop(m);
        a = pop(m);
        push(m, b);
        push(m, a);
        break;
    case OP_PICK:
        push(m, pick(m, operand(m, 1)));
        break;
    case OP_ROT:
        rotate(m);
        break;
    default:
        m->failed = true;
        break;
    }
}

bool agent_expression_value(const uint8_t *code, size_t size,
                            const AgentTarget *target, uint64_t *value)
{
    Machine m = { .code = code, .size = size, .target = target };

    while (!m.failed && m.at < size) {
        Op op = code[m.at++];

        if (op == OP_END) {
            if (!m.depth) {
                return false;
            }
            *value = m.stack[m.depth - 1];
            return true;
        }
        step(&m, op);
    }
    return false;
}
