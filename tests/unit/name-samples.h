/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What backtrail-guest-names says, for tests: each call adds a message to bytes
 */

#ifndef NAME_SAMPLES_H
#define NAME_SAMPLES_H

#include <glib.h>

#include "guest-names/name-reader.h"

#define SAMPLE_NONCE    UINT64_C(0x1122334455667788)

/* A message of any type, and the texts after its struct */
void say(GByteArray *to, uint16_t type, const void *fixed, size_t size,
         const char *texts);

void say_hello(GByteArray *to, uint64_t nonce, uint32_t flags);
void say_listing(GByteArray *to, uint64_t time, bool end);
void say_process(GByteArray *to, uint64_t time, uint32_t pid, const char *comm);
void say_kernel_thread(GByteArray *to, uint64_t time, uint32_t pid);
void say_thread(GByteArray *to, uint64_t time, uint32_t pid, uint32_t tid);
/* With as many pages */
void say_mapping(GByteArray *to, uint64_t time, uint32_t pid, uint64_t start,
                 unsigned pages, const char *path);
void say_fork(GByteArray *to, uint64_t time, uint32_t parent, uint32_t pid);
void say_exit(GByteArray *to, uint64_t time, uint32_t pid, uint32_t tid);
void say_name(GByteArray *to, uint64_t time, uint32_t pid, bool exec,
              const char *comm);
/* A CPU runs processes; the list ends with a time of 0. */
void say_switches(GByteArray *to, uint32_t cpu,
                  const struct btrail_guest_switch *list);
void say_up_to(GByteArray *to, uint64_t time);
void say_functions(GByteArray *to, uint64_t time, uint32_t pid, uint32_t flags,
                   const char *lines);
/* A piece of a file of @total bytes */
void say_content(GByteArray *to, uint64_t at, uint64_t total, uint32_t error,
                 const char *piece);
void say_symbols(GByteArray *to, uint32_t flags, const char *text);

/* Reads them, after a HELLO; they must be well-formed. */
void hear(const GByteArray *said, name_reader_fn *fn, void *opaque);

#endif /* NAME_SAMPLES_H */
