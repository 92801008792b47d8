/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Returns that are jumps: see retpoline.h
 */

#include <string.h>

#include "symbolize/instruction.h"
#include "symbolize/retpoline.h"

#define CALL_SIZE   5

/* The length of mov %reg, (%rsp) at the beginning of some bytes, or 0 */
static size_t replaces(const uint8_t *code, size_t n, unsigned bits)
{
    size_t prefix = bits == 64;

    if (bits == 16 || n < prefix + 3 ||
        (prefix && (code[0] & 0xfb) != 0x48)) {
        return 0;
    }
    code += prefix;
    return code[0] == 0x89 && (code[1] & 0xc7) == 0x04 && code[2] == 0x24 ?
           prefix + 3 : 0;
}

/* The same for what adds the size of an address to %rsp: lea or add */
static size_t drops(const uint8_t *code, size_t n, unsigned bits)
{
    size_t prefix = bits == 64;

    if (bits == 16 || n < prefix + 4 || (prefix && code[0] != 0x48)) {
        return 0;
    }
    code += prefix;
    if (!memcmp(code, "\x8d\x64\x24", 3) && code[3] == bits / 8) {
        return prefix + 4;
    }
    return !memcmp(code, "\x83\xc4", 2) && code[2] == bits / 8 ?
           prefix + 3 : 0;
}

bool retpoline_end(const uint8_t *code, size_t n, unsigned bits)
{
    size_t size = bits == 64 ? 4 : 3;

    if (n < size || !replaces(code + n - size, size, bits)) {
        return false;
    }
    for (size_t skipped = 0; skipped <= RETPOLINE_SKIP; skipped++) {
        const uint8_t *call = code + n - size - skipped - CALL_SIZE;

        if (n < size + skipped + CALL_SIZE) {
            break;
        }
        if (call[0] == 0xe8 && call[1] == skipped && !call[2] && !call[3] &&
            !call[4]) {
            return true;
        }
    }
    return false;
}

bool retpoline_target(const uint8_t *code, size_t n, unsigned bits, bool near)
{
    size_t size = near ? replaces(code, n, bits) : 0;
    struct instruction insn;

    size = size ? size : drops(code, n, bits);
    return size && instruction_decode(code + size, n - size, bits, 0, &insn) &&
           (insn.kind == INSTRUCTION_RET ||
            (insn.kind == INSTRUCTION_JUMP && insn.direct));
}
