/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * usage: trace-insn [strict] CODE... <SCRIPT
 *
 * SCRIPT is what "backtrail script --insn --events" prints of a part of a trace
 * of one vCPU.  ../code has written each CODE: from the guest's kernel, from a
 * program.  Fails unless the instructions before each record are those from
 * where the last record went to the branch, all and no others, where CODE says
 * which there are.
 *
 * The kernel changes its own code when it starts: where what is executed has
 * other instructions than what was built, only the ends count.
 *
 * "strict": events that KVM injects have no record, so that instructions may not
 * lead to the first record of the kernel behind one.  "backtrail" says so then,
 * and only then.
 */
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_CODES   4
#define MAX_INSNS   4096

static struct code {
    uint64_t begin, size;
    uint8_t *table;         /* instruction's length in the low four bits */
} codes[MAX_CODES];
static unsigned known;

static uint64_t insns[MAX_INSNS];
static size_t count;
static bool hole;

static void read_code(const char *path)
{
    struct code *c = &codes[known++];
    FILE *file = fopen(path, "rb");

    if (!file || fread(c, 16, 1, file) != 1 ||
        !(c->table = malloc(c->size)) ||
        fseek(file, c->size, SEEK_CUR) ||
        fread(c->table, c->size, 1, file) != 1) {
        printf("%s cannot be read\n", path);
        exit(1);
    }
    fclose(file);
}

/* The length of the instruction there as it was built; 0: not known */
static unsigned length(uint64_t address)
{
    for (unsigned i = 0; i < known; i++) {
        if (address - codes[i].begin < codes[i].size) {
            return codes[i].table[address - codes[i].begin] & 15;
        }
    }
    return 0;
}

/* Are they what was built, from one to the next? */
static bool as_built(void)
{
    for (size_t i = 0; i + 1 < count; i++) {
        if (insns[i] + length(insns[i]) != insns[i + 1]) {
            return false;
        }
    }
    return true;
}

static char *skip(char *at)
{
    at += strspn(at, " ");
    return at + strcspn(at, " \n");
}

int main(int argc, char **argv)
{
    size_t records = 0, built = 0, other = 0, foreign = 0, missing = 0;
    size_t unrecorded = 0;
    bool strict = argc > 1 && strcmp(argv[1], "strict") == 0;
    uint64_t last = 0;
    char line[1024];

    argv += strict;
    argc -= strict;
    if (argc < 2 || argc > 1 + MAX_CODES) {
        fprintf(stderr, "usage: trace-insn [strict] CODE... <SCRIPT\n");
        return 2;
    }
    for (int i = 1; i < argc; i++) {
        read_code(argv[i]);
    }
    while (fgets(line, sizeof(line), stdin)) {
        uint64_t from;
        char *at;

        if (strcmp(line, "\t(what followed is not in the trace)\n") == 0) {
            hole = true;
            continue;
        }
        if (line[0] == '\t') {
            if (count < MAX_INSNS) {
                insns[count++] = strtoull(line + 1, NULL, 16);
            }
            continue;
        }
        at = skip(skip(skip(skip(line))));
        if (strncmp(at, " event ", 7) == 0) {
            if (strncmp(at, " event gap ", 11) == 0) {
                last = 0;
            }
            continue;
        }
        from = strtoull(at, &at, 16);
        if (last) {
            records++;
            if (!count) {
                missing++;
            } else if (strict && insns[0] == last && hole && from >> 63) {
                unrecorded++;
            } else if (insns[0] != last || insns[count - 1] != from) {
                printf("%zu instructions from %llx to %llx, and not from %llx, "
                       "before: %s", count, (unsigned long long)insns[0],
                       (unsigned long long)insns[count - 1],
                       (unsigned long long)last, line);
                return 1;
            } else if (!length(from)) {
                foreign++;
            } else if (as_built()) {
                built++;
            } else if (from >> 63) {
                other++;
            } else {
                printf("not the instructions of the program: %s", line);
                return 1;
            }
        }
        last = strtoull(at, NULL, 16);
        count = 0;
        hole = false;
    }
    printf("the instructions before %zu records are right: %zu are as they were "
           "built, %zu are not, %zu in other programs; %zu have none, %zu are "
           "behind events without a record\n",
           records, built, other, foreign, missing, unrecorded);
    return records < 1000 || missing || other > records / 20 ||
           unrecorded > records / 20;
}
