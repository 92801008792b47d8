/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Effects of instructions: see instruction.h
 */

#include <string.h>
#include <Zydis/Zydis.h>

#include "symbolize/instruction.h"
#include "symbolize/x86-decode.h"

static bool init_decoder(ZydisDecoder *decoder, unsigned bits)
{
    switch (bits) {
    case 64:
        return ZYAN_SUCCESS(ZydisDecoderInit(decoder,
                                             ZYDIS_MACHINE_MODE_LONG_64,
                                             ZYDIS_STACK_WIDTH_64));
    case 32:
        return ZYAN_SUCCESS(ZydisDecoderInit(decoder,
                                             ZYDIS_MACHINE_MODE_LONG_COMPAT_32,
                                             ZYDIS_STACK_WIDTH_32));
    case 16:
        return ZYAN_SUCCESS(ZydisDecoderInit(decoder,
                                             ZYDIS_MACHINE_MODE_REAL_16,
                                             ZYDIS_STACK_WIDTH_16));
    default:
        return false;
    }
}

static enum instruction_kind kind_of(const ZydisDecodedInstruction *zi)
{
    switch (zi->mnemonic) {
    case ZYDIS_MNEMONIC_CALL:
        return INSTRUCTION_CALL;
    case ZYDIS_MNEMONIC_RET:
        return INSTRUCTION_RET;
    case ZYDIS_MNEMONIC_JMP:
        return INSTRUCTION_JUMP;
    case ZYDIS_MNEMONIC_SYSCALL:
    case ZYDIS_MNEMONIC_SYSENTER:
        return INSTRUCTION_SYSCALL;
    case ZYDIS_MNEMONIC_SYSRET:
    case ZYDIS_MNEMONIC_SYSEXIT:
        return INSTRUCTION_SYSRET;
    case ZYDIS_MNEMONIC_INT:
    case ZYDIS_MNEMONIC_INT1:
    case ZYDIS_MNEMONIC_INT3:
    case ZYDIS_MNEMONIC_INTO:
        return INSTRUCTION_INT;
    case ZYDIS_MNEMONIC_IRET:
    case ZYDIS_MNEMONIC_IRETD:
    case ZYDIS_MNEMONIC_IRETQ:
    case ZYDIS_MNEMONIC_RSM:
    case ZYDIS_MNEMONIC_UIRET:
        return INSTRUCTION_IRET;
    case ZYDIS_MNEMONIC_VMRUN:
    case ZYDIS_MNEMONIC_VMLAUNCH:
    case ZYDIS_MNEMONIC_VMRESUME:
    case ZYDIS_MNEMONIC_VMCALL:
    case ZYDIS_MNEMONIC_VMMCALL:
        return INSTRUCTION_VM;
    default:
        return zi->meta.category == ZYDIS_CATEGORY_COND_BR ?
               INSTRUCTION_CONDITIONAL : INSTRUCTION_OTHER;
    }
}

bool instruction_decode(const void *bytes, size_t n, unsigned bits,
                        uint64_t address, struct instruction *insn)
{
    ZydisDecodedInstruction zi;
    ZydisDecoder decoder;
    const char *text;

    memset(insn, 0, sizeof(*insn));
    if (!init_decoder(&decoder, bits) ||
        !ZYAN_SUCCESS(x86_decode(&decoder, bytes, n, &zi, &text))) {
        return false;
    }
    insn->kind = kind_of(&zi);
    insn->length = zi.length;
    if (zi.attributes & ZYDIS_ATTRIB_IS_RELATIVE &&
        zi.raw.imm[0].is_relative) {
        insn->direct = true;
        insn->target = address + zi.length + zi.raw.imm[0].value.s;
        if (bits != 64) {
            insn->target &= UINT32_MAX;
        }
        insn->wraps = bits == 16 && zi.operand_width == 16;
    }
    return true;
}

/* The bit of a register of 64 bits, or of that in a memory operand; or 0 */
static unsigned register_of(const ZydisDecodedOperand *o)
{
    ZydisRegister r = o->type == ZYDIS_OPERAND_TYPE_MEMORY ? o->mem.base :
                      o->type == ZYDIS_OPERAND_TYPE_REGISTER ? o->reg.value :
                      ZYDIS_REGISTER_NONE;

    return r >= ZYDIS_REGISTER_RAX && r <= ZYDIS_REGISTER_R15 ?
           1u << (r - ZYDIS_REGISTER_RAX) : 0;
}

bool instruction_changes_stack(const void *bytes, size_t n)
{
    const unsigned sp = 1u << (ZYDIS_REGISTER_RSP - ZYDIS_REGISTER_RAX);
    const unsigned bp = 1u << (ZYDIS_REGISTER_RBP - ZYDIS_REGISTER_RAX);
    unsigned on_stack = sp | bp;        /* registers that have RSP, as it was */
    ZydisDecodedOperand o[ZYDIS_MAX_OPERAND_COUNT];
    ZydisDecodedInstruction zi;
    ZydisDecoder decoder;
    bool changes = false;

    init_decoder(&decoder, 64);
    for (size_t at = 0; at < n; at += zi.length) {
        bool address;
        unsigned to;

        if (!ZYAN_SUCCESS(ZydisDecoderDecodeFull(
                &decoder, (const char *)bytes + at, n - at, &zi, o))) {
            return false;
        }
        address = zi.mnemonic == ZYDIS_MNEMONIC_LEA;
        if (kind_of(&zi) == INSTRUCTION_RET ||
            kind_of(&zi) == INSTRUCTION_JUMP) {
            /* What follows is reached from elsewhere. */
            changes = false;
        }
        if ((zi.mnemonic != ZYDIS_MNEMONIC_MOV && !address) ||
            o[0].type != ZYDIS_OPERAND_TYPE_REGISTER) {
            continue;
        }
        to = register_of(&o[0]);
        if (to == sp) {
            changes = register_of(&o[1]) & ~on_stack;
        } else if (register_of(&o[1]) == sp &&
                   (address || o[1].type == ZYDIS_OPERAND_TYPE_REGISTER)) {
            on_stack |= to;
        } else {
            on_stack &= ~to;
        }
    }
    return changes;
}

unsigned instruction_text(const void *bytes, size_t n, unsigned bits,
                          uint64_t address, char text[INSTRUCTION_TEXT])
{
    ZydisDecodedOperand operands[ZYDIS_MAX_OPERAND_COUNT];
    ZydisDecodedInstruction zi;
    ZydisFormatter formatter;
    ZydisDecoder decoder;
    const char *newer;

    if (init_decoder(&decoder, bits) &&
        ZYAN_SUCCESS(x86_decode_full(&decoder, bytes, n, &zi, operands,
                                     &newer))) {
        if (newer) {
            strcpy(text, newer);
            return zi.length;
        }
        if (operands[0].type == ZYDIS_OPERAND_TYPE_IMMEDIATE &&
            operands[0].imm.is_relative) {
            /*
             * Else the target is cut: to 16 bits, as IP is; and since Zydis 4.1
             * to the size of the instruction's addresses, which a prefix
             * changes.
             */
            zi.stack_width = zi.address_width = bits == 64 ? 64 : 32;
            if (bits == 16) {
                zi.operand_width = 32;
            }
        }
        if (ZYAN_SUCCESS(ZydisFormatterInit(&formatter,
                                            ZYDIS_FORMATTER_STYLE_INTEL)) &&
            ZYAN_SUCCESS(ZydisFormatterFormatInstruction(
                &formatter, &zi, operands, zi.operand_count_visible, text,
                INSTRUCTION_TEXT, address, NULL))) {
            return zi.length;
        }
    }
    strcpy(text, "(bad)");
    return 0;
}

static bool is_target(const struct instruction *insn, uint64_t to)
{
    uint32_t distance = to - insn->target;

    return to == insn->target ||
           (insn->wraps && to <= UINT32_MAX &&
            (distance == 0x10000 || distance == -0x10000u));
}

bool instruction_goes(const struct instruction *insn, uint64_t to)
{
    switch (insn->kind) {
    case INSTRUCTION_UNKNOWN:
        /* It may be any instruction. */
        return true;
    case INSTRUCTION_OTHER:
        return false;
    default:
        return !insn->direct || is_target(insn, to);
    }
}

bool instruction_always_goes(const struct instruction *insn)
{
    switch (insn->kind) {
    case INSTRUCTION_CALL:
    case INSTRUCTION_RET:
    case INSTRUCTION_JUMP:
    case INSTRUCTION_SYSCALL:
    case INSTRUCTION_SYSRET:
    case INSTRUCTION_IRET:
        return true;
    default:
        return false;
    }
}
