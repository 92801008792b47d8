/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What gdb needs of a program's file: symbols, lines, and how to unwind
 *
 * Files of a guest are a guest's word.  gdb gets none of them whole: no setting
 * of gdb's wholly prevents what it would do by itself with the rest: run
 * scripts, follow names of other files, unpack what is packed.
 */

#ifndef BTRAIL_GDB_PROGRAM_FILE_H
#define BTRAIL_GDB_PROGRAM_FILE_H

#include <stdbool.h>
#include <stdint.h>

/**
 * program_file_copy - make an ELF file with the symbols, lines and tables for
 * unwinding of another one
 * @from: may be anything
 * @to:   is replaced
 * @start: gets the first address that is loaded of it
 *
 * It is one of 64 bits.  Addresses and numbers of sections are those of the
 * other one.  Done by a process of its own that has little time and memory; what
 * is large is left out, first lines, then all.  False if there is no file then.
 */
bool program_file_copy(const char *from, const char *to, uint64_t *start);

#endif /* BTRAIL_GDB_PROGRAM_FILE_H */
