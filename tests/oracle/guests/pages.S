/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Code that is not what it was: pages mapped at several addresses, branches
 * and instructions across the ends of pages, other address spaces at the same
 * address, code that modifies itself
 *
 * covers: jmp/prot32 jcc/prot32 call/prot32 ret/prot32 loop/prot32 int/prot32
 * covers: far_call/prot32 exception/prot32
 * vectors: 6 14
 * cr3: 0 0x20000 0x22000
 */

#include "guest.h"
#include "prot.h"

#define DIR             0x20000
#define TABLE           0x21000         /* the first 4 MiB */
#define DIR_OTHER       0x22000         /* another address space: */
#define TABLE_OTHER     0x23000         /* WINDOW shows other_page */
#define TABLE_HIGH      0x24000         /* the last 4 MiB */
#define WINDOW          0x100000        /* a page with several mappings */
#define ALIAS           0x3ff000
#define HIGH            0xfffff000      /* the last page of all */
#define NONE            0x180000

/* MAP address, physical: in the first address space */
        .macro MAP address, physical
        movl $\physical + 7, TABLE + ((\address >> 12) & 0x3ff) * 4
        invlpg \address
        .endm

        PROTECTED_MODE
main:
        mov $TABLE, %edi
        mov $7, %eax
1:      mov %eax, (%edi)
        mov %eax, TABLE_OTHER - TABLE(%edi)
        add $4, %edi
        add $0x1000, %eax
        cmp $0x400007, %eax
        jne 1b
        mov $DIR, %edi
        xor %eax, %eax
        mov $1024, %ecx
        rep stosl
        mov $DIR_OTHER, %edi
        mov $1024, %ecx
        rep stosl
        mov $TABLE_HIGH, %edi
        mov $1024, %ecx
        rep stosl
        movl $TABLE + 7, DIR
        movl $TABLE_OTHER + 7, DIR_OTHER
        movl $TABLE_HIGH + 7, DIR + 0xffc
        movl $code_page + 7, TABLE_HIGH + 0xffc
        movl $other_page + 7, TABLE_OTHER + (WINDOW >> 12) * 4
        andl $~1, TABLE + (NONE >> 12) * 4
        mov $DIR, %eax
        mov %eax, %cr3
        mov %cr0, %eax
        or $CR0_PG | CR0_WP, %eax
        mov %eax, %cr0
        jmp 1f
1:
        /* one page, run at several addresses in turn */
        MAP WINDOW, code_page
        MAP ALIAS, code_page
        mov $3, %ebx
1:      call code_page
        mov $WINDOW, %eax
        call *%eax
        call ALIAS
        mov $HIGH, %eax
        call *%eax
        dec %ebx
        jnz 1b

        /* it loops within itself, and from the first page to the last */
        MAP WINDOW, wrap_page
        movl $wrap_page + 7, TABLE_HIGH + 0xffc
        invlpg HIGH
        MAP 0, wrap_page
        mov $1f, %esi
        jmp HIGH + 0xff0
1:      mov $1f, %esi
        mov $HIGH + 0xff0, %eax
        jmp *%eax
1:      MAP 0, 0

        /* a branch and its target in different pages; the last bytes */
        MAP WINDOW, end_page
        MAP (WINDOW + 0x1000), code_page
        mov $3, %ebx
1:      mov $WINDOW + 0xff0, %eax
        call *%eax              /* falls through into the next page */
        mov $WINDOW + 0xfe0, %eax
        call *%eax              /* jumps there */
        mov $WINDOW + 0xfd0, %eax
        call *%eax              /* calls there, returns here */
        dec %ebx
        jnz 1b
        /* the page behind the end is another one now */
        MAP (WINDOW + 0x1000), other_page
        mov $WINDOW + 0xff0, %eax
        call *%eax
        mov $WINDOW + 0xfe0, %eax
        call *%eax
        mov $WINDOW + 0xfd0, %eax
        call *%eax

        /* instructions across the end; what they are depends on the page
           behind it */
        mov $2, %ebx
1:      MAP WINDOW, straddle_page
        MAP (WINDOW + 0x1000), tail_page1
        mov $WINDOW + 0xff0, %eax
        call *%eax
        MAP (WINDOW + 0x1000), tail_page2
        mov $WINDOW + 0xff0, %eax
        call *%eax
        dec %ebx
        jnz 1b
        /* the page behind is not there: the fault is the instruction's */
        andl $~1, TABLE + (WINDOW >> 12) * 4 + 4
        invlpg WINDOW + 0x1000
        mov %esp, %ebp
        EXPECT 14, 1f
        mov $WINDOW + 0xff0, %eax
        call *%eax
1:      mov %ebp, %esp

        /* another address space at the same address */
        MAP WINDOW, code_page
        mov $3, %ebx
1:      mov $DIR, %eax
        mov %eax, %cr3
        mov $WINDOW, %eax
        call *%eax
        mov $DIR_OTHER, %eax
        mov %eax, %cr3
        mov $WINDOW, %eax
        call *%eax
        dec %ebx
        jnz 1b
        /* and in the middle of a page that changes under our feet */
        MAP WINDOW, switch_page
        mov $WINDOW, %eax
        mov $DIR, %ecx
        call *%eax
        mov $DIR, %eax
        mov %eax, %cr3

        /* code that modifies what comes next, by plain moves */
        mov $4, %ebx
modify: mov %bl, 1f + 1         /* the displacement of a jump */
1:      jmp 2f
        nop
        nop
        nop
        nop
        nop
2:      nop
        nop
        nop
        nop
        xorb $1, 1f             /* je becomes jne and back */
        cmp %eax, %eax
1:      je 1f
        nop
1:      movl $near1 - 1f, 1f - 4
        cmp $2, %ebx
        ja 2f
        movl $near2 - 1f, 1f - 4
2:      call near1
1:      dec %ebx
        jnz modify

        /* a branch far ahead of which the block was translated already */
        mov $6, %ebx
1:      xorb $near1_or_2, 2f + 1
        nop
        nop
2:      .byte 0xeb, 0           /* to near3, or to near4 */
near3:  nop
near4:  dec %ebx
        jnz 1b

        /* a string instruction that overwrites what follows, and itself */
        mov $3, %ebx
rewrite:
        mov $original, %esi
        mov $1f, %edi
        mov $original_end - original, %ecx
        rep movsb
1:      .fill original_end - original, 1, 0xcc
        dec %ebx
        jnz rewrite
        mov $0x90, %al
        mov $1f, %edi
        mov $8, %ecx
        .byte 0xeb, 0
1:      rep stosb               /* becomes nop, before it has ended */
        .fill 6, 1, 0x90
        jmp 1f
1:
        /* a call whose push overwrites the block that it is in */
        mov %esp, %ebp
        mov $3, %ebx
        movl $0x90909090, 2f
1:      mov $2f + 4, %esp
        .byte 0xeb, 0
2:      .fill 4, 1, 0x90
        call 3f
3:      movl $0x90909090, 2b
        dec %ebx
        jnz 1b
        mov $3, %ebx
1:      mov $2f + 4, %esp
        mov $3f, %eax
        .byte 0xeb, 0
2:      .fill 4, 1, 0x90
        call *%eax
        nop
3:      movl $0x90909090, 2b
        dec %ebx
        jnz 1b
        mov $3, %ebx
1:      mov $2f + 8, %esp
        .byte 0xeb, 0
2:      .fill 8, 1, 0x90
        lcall $SEL_CODE32, $3f
        nop
3:      movl $0x90909090, 2b
        movl $0x90909090, 2b + 4
        dec %ebx
        jnz 1b
        /* an interrupt and a fault that push onto it */
        mov $3, %ebx
1:      mov $2f + 12, %esp
        .byte 0xeb, 0
2:      .fill 12, 1, 0x90
        int $0x20
        movl $0x90909090, 2b
        movl $0x90909090, 2b + 4
        movl $0x90909090, 2b + 8
        dec %ebx
        jnz 1b
        mov $3, %ebx
1:      mov $2f + 36, %esp
        EXPECT 6, 3f
        .byte 0xeb, 0
2:      .fill 36, 1, 0x90
        ud2
3:      mov $2b, %edi
        mov $0x90, %al
        mov $36, %ecx
        rep stosb
        dec %ebx
        jnz 1b
        mov %ebp, %esp

        /* another alias of a page that was run is written to */
        MAP WINDOW, code_page
        MAP ALIAS, code_page
        mov $WINDOW, %eax
        call *%eax
        movb $0xc3, ALIAS + (code_ret - code_page)
        mov $WINDOW, %eax
        call *%eax
        call code_page
        PASS

near1:  ret
near2:  ret
handler20:
        iret

        .set near1_or_2, near4 - near3

original:
        jmp 1f
        nop
1:      cmp %eax, %eax
        je 1f
        nop
1:      nop
original_end:

        PROTECTED_GDT
        PROTECTED_IDT
        GATE handler20, SEL_CODE32, D_INTR32
        PROTECTED_END

        /* position-independent, since they run at several addresses */
        .balign 4096
code_page:
        jmp 1f
        nop
1:      mov $3, %ecx
1:      loop 1b
        call 2f
        cmp %ecx, %ecx
        je 1f
        nop
1:      call 1f
1:      pop %eax
        add $3f - 1b, %eax
        jmp *%eax
        nop
3:      jne 2f
        jmp 3f
2:      ret
3:      nop
code_ret:
        nop
        ret

        .balign 4096
other_page:
        nop
        jmp 1f
        .fill 5, 1, 0x90
1:      mov $2, %ecx
2:      dec %ecx
        jnz 2b
        ret

        .balign 4096
end_page:
        .org end_page + 0xfd0
        call end_page + 0x1000
        ret
        .org end_page + 0xfe0
        jmp end_page + 0x1000
        .org end_page + 0xff0
        cmp %eax, %eax
        je 1f
        nop
        .org end_page + 0xffd
1:      nop
        nop
        nop

/* A jump whose displacement is in the next page. */
        .balign 4096
straddle_page:
        .org straddle_page + 0xff0
        xor %eax, %eax
        jz 1f
        nop
        .org straddle_page + 0xffe
1:      nop
        .byte 0xe9
        .balign 4096
tail_page1:
        .long 0x10
        .org tail_page1 + 0x14
        ret
        .balign 4096
tail_page2:
        .long 0x20
        .org tail_page2 + 0x24
        call 1f
        ret
1:      ret

/* CR3 goes to DIR, in which this page is the same. */
        .balign 4096
switch_page:
        jmp 1f
        nop
1:      mov %ecx, %cr3
        jmp 1f
        nop
1:      ret

/* From the end of the last page around to the first. */
        .balign 4096
wrap_page:
        nop
        nop
        jmp *%esi
        .org wrap_page + 0xff0
        jmp 1f
        nop
1:      cmp %eax, %eax
        .byte 0x0f, 0x84        /* je wrap_page + 0x1000, which is 0 */
        .long 0x1000 - 0xffb + 1
        .balign 4096

        GUEST_END
