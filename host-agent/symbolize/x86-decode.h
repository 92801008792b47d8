/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * One instruction, also if it is newer than Zydis
 *
 * Zydis of Debian 12 (4.0.0) and 13 (4.1.1) refuses what Linux runs by now on
 * CPUs that have it: ERETU, ERETS, LKGS and WRMSRNS (with FRED, on each way
 * through the kernel), and all of APX.  Not to know the length of one loses
 * what comes after it; to guess that it goes on, as libipt 2.1.2 does for ERETU,
 * is a wrong answer.
 */

#ifndef BTRAIL_X86_DECODE_H
#define BTRAIL_X86_DECODE_H

#include <Zydis/Zydis.h>

/**
 * x86_decode - as ZydisDecoderDecodeInstruction(), and for more instructions
 * @text: gets NULL, or what is printed of one that Zydis does not know
 *
 * Returns what Zydis would: ZYDIS_STATUS_NO_MORE_DATA if @n bytes can be the
 * first ones of an instruction, another error if they cannot.
 */
ZyanStatus x86_decode(const ZydisDecoder *decoder, const void *bytes, size_t n,
                      ZydisDecodedInstruction *zi, const char **text);

/**
 * x86_decode_full - the same with operands, as ZydisDecoderDecodeFull()
 * @operands: of ZYDIS_MAX_OPERAND_COUNT; set if @text gets NULL
 */
ZyanStatus x86_decode_full(const ZydisDecoder *decoder, const void *bytes,
                           size_t n, ZydisDecodedInstruction *zi,
                           ZydisDecodedOperand *operands, const char **text);

/**
 * x86_decode_newer - decode one that Zydis does not know
 *
 * These are in 64-bit mode: what Intel's SDM and the extensions have that it had
 * announced in 2025.  Of the formats VEX and EVEX it is whatever Zydis refuses:
 * none of them branches.
 *
 * Sets the length, the opcode and the mnemonic of @zi: ERETU and ERETS are an
 * IRETQ, JMPABS is a JMP, what goes on with the next instruction is
 * ZYDIS_MNEMONIC_INVALID.  With REX2 it is what Zydis says of it with REX.
 */
ZyanStatus x86_decode_newer(const ZydisDecoder *decoder, const void *bytes,
                            size_t n, ZydisDecodedInstruction *zi,
                            const char **text);

#endif /* BTRAIL_X86_DECODE_H */
