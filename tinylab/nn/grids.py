"""Tables of the IQ types of ggml: the points that a code stands for.

Each row is two bytes: its numbers, of two or three bits, are places in the few values that occur.

Source: ggml, ggml-common.h (iq2s_grid, iq3xxs_grid, iq3s_grid), MIT licence, the ggml authors.
"""

from __future__ import annotations

import base64
import functools
from typing import NamedTuple


class Grid(NamedTuple):
    """Rows of equally many numbers."""

    values: tuple[int, ...]
    bits: int
    width: int
    text: str


@functools.cache
def rows_of(grid: Grid) -> list[list[int]]:
    """The table, unpacked."""
    raw = base64.b85decode(grid.text)
    words = [int.from_bytes(raw[i : i + 2], "little") for i in range(0, len(raw), 2)]
    mask = (1 << grid.bits) - 1
    return [[grid.values[w >> grid.bits * i & mask] for i in range(grid.width)] for w in words]


# fmt: off
IQ2_S = Grid((8, 25, 43), 2, 8, (
    "000621po*D3IGuR6aW?g82}&vA^;@-C;&kKL;ywrNdQm)QUFx|SO8%FWB_IWX#ju#f&hg8hyalQlmMUrr2wh`0RaR71_"
    "22H5CIYa6#*ClAps--KmkGlMFB_wQ2|r|RsmT7U;$+TXaRu%gaMENk^z+gp#h`;00II61p){H5dstfAOb1^K>|bqMgmC"
    "!Py$r~fC7aAiUO1Zq5=T~1Ox^I2?P)X5(E_l7z7~%Bm^b|DFi?SLIgzwNCZj*Q3O;3Rs>lDU<6_WWdwl)gan2Ji3E@Yl"
    "?0dsp#-D^00jaC1qBEN3I!1b6a^Lq83iB(B?Tx2K?OtwMg>U)Pz6#2RRvfDVFhFbfCYjDg$0NOkp+|mpalU21O^5M2?h"
    "`b6$U^CMFvO)Q3g~7U<QE(ga(iX00;sI1qcWT5eO6r76=&#AP6N0DhNRcL<mL*NeEB~QV3NDSO{SVWC(x=g$R@gst5rI"
    "1PKrc5(yOv7zrT>KnX<&NC{C1R0&`SfeDZa016Qb6bd2=C<-bHPzsp}0T2Wb1`r7l5D*d&6%ZH@ArK@GCJ;anLJ&m|ND"
    "xsFR1j7WSrA|lVi08zXb^!Agb;=hkPwv+m=K{5q!0iR0ucof2oVYq5fKy-77-Z{AQ2)FB@rkQK@mg|MiEI7P!UoQRS{S"
    "bVG(2zfDwWbg%OAmkr9*;0TKif2@((z6%rv5BoaUpMG{dGR1$#_gc6Vv02Bfg1r!Jr5fl^@78Ds2AQUAOC=@{yL=;98N"
    "fb~NQWRAbSQKFtWE6lDf)s@mh!l|&loX&80Tl!l1{Dbv5ET*?6%`m2Ar&MQKovq2MHNUDQ594bU=@KCgcXn#02T!n2o@"
    "0*6c!*BK^8<7P!@m|sulql1Q-Sw2^bI<6&M&8As9dyLKsCDNElHVR2X0wff$4s02u-q1sMn#5g8O2AQ?d!L>W*SX&Is!"
    "1R4+;KpIvW03ZS&1t16@5g-&G79bfQARr|mDj-21L?BQgQXo|zWFUYbiXfCAsvrR&1R)S15+M~KAt68^LLo&VQ6W?zU?"
    "G7agdvb203r$^A|favDk4N8P$GyTiXx~Y0VD(@1|$h25F`~O7$hMiBqTs2LL@~bNF-4tR3u;|fh2?^kR$*l1tkb25hWB"
    "QASFR1L?uuqW+i|n0VV_{5GFt-StbA|1t<|H6evL`L?}=wiYTfm0VxD25Gj=@3MwKhWGaX%iYfs>1V9Er2|y4)5<nF|7"
    "(g08AwVQRCO|+yLO?}8NI*(JQ9x8cRzO)mU_fF(Wk7*Igg}r$l|Yz4p+KZS06_vl1wjZw5kV9|7C{+7AVDHQB|$+!L_t"
    "PDNkLFSQbAQgSV3VyWI=#If<c8rh(VD-ltG|D0YU^q5JD0{6+#$7Btk$!MM6kIQ9@KgU_yaHghBvB0z?Hw2t*1*5kwS3"
    "7DO3DAVeZWB}6DhK}1AEMnp+OP()HhRYX`sVMJs^fJA~sg+z!%kwlb4phN*h1Vsi#2}KY^5=9k77)2pPBt<|)LPbSINJ"
    "UXaR7GG#YDIxXghh}=07e2v1x5%)5k?e7AVxt(L`G0XfJUW80Z0T$2}lq~5=a$D7)T*VBuGF=LP$kONJvpgR7hY*gh-G"
    "`07(K#1xW}=5lIwDAW1<<L`hIdfJv4~0ZIf)5K2Hw08j!@1yBf35l|FR7El>bAW$MuB~U0(K~O|cMo>vmP*74(RZv(^V"
    "NhgHfKY-^g;0o4kx-OS0Z{}|22lx75K$6Q6;T*bAyFhzKv6<bMNvpmQBhP;U{Qflgi(-D08#}~2vQMJ6jC5kK~h9gP*Q"
    "19fKmZe1XKo82~-eN5>ypb7*rutBve3DLR3XmNK{c&R8(M8fmDQ4kW>Iw0#yZ72vreP6jdNqK~+RmP*s3c0agT75LPBu"
    "Kvn=)0$2rD2v`wV6j&fwL0CjsP*_@6fLH-p1X&PSKv@7<8Cr!}s9FJF1YibW5MUBu6<`=(Az&n6Kww2+NMKQ5RA69Wgk"
    "X?h0AT`Q1z`wb5n&WzAYnmaL}5^2fMJ<o1Y!_kKw?&6p<)1J1!M?h5o8o(AY?&gL}XB8fMfw>1Z5CqKxIm0Xl0UR0A`e"
    "C0cZqh5NKs+m}mfLDrrJ$p=tnt0)Pd82!IiQ6o46kAb=%+L4ZVnP=Hc^Re)H4VSs>ug@BQOlz;(&1c3>G5P=eb6@eImA"
    "%P@;K!HMmMS)0xQGrx}fq{g9kb$Xz0D=XA3W5=W6oNs5M1oL)0fYpE280QO5QGwh6@(asA%sALLWD(xNQ6;@RD@uJfrN"
    "yFkc0q*0)+*I2!#=a6onv#L4`zxP=$bniiH7&1cnfXDTY9X0Eh*M5r`CsL5M_%P>7<40f_{OK#66EB8pgwT8e^-qKW~K"
    "1ds`k5Rej(6_6N^B#=OmLXbs}NRUyGRFGhhfslldkdOe81(6Yv6p=xZM3GRDT9E;g1d<SvK$51C0F(lh1(XPs5tI~^Ae"
    "2FrM3hjJfRvV$0hI)m5S2icn3bWG0G39UWR?M#1eg$*CYV5&sh9wnNtsfakeUFX1)vI`6rduYDxg82M4(WhqM)jvK%r%"
    "!0-_3{BBCgwDx!j-h@y(3sG<R+1f&q8K%|MJq@)0)8KqIC3aBWkqNr4<hN%du3aTKgBC05=h^nfp"
))
IQ3_XXS = Grid((4, 12, 20, 28, 36, 44, 52, 62), 3, 4, (
    "000621ON#D3jhxQ5C9SY82};xI{-ZZK>$MlNB~LzQ2<o{SO8i8VE}9ZcmRL^f&hd7i2#rQk^q?in*g5xsQ|A4y#T=g#{"
    "kFx$^g{>_y7w59|0r*F9ACNJpn-hM*&&^Y5|=Av;oKg%mK~;;{ovj0RjU82m%TM5dsqe7y=ps90Df-C;~tNLIOzwPy$i"
    "{fdYd9hyscNkph?kx&pug!UE6&*#hPQ_5uL|1p_DpPy<v0W&?Qxg#*$9-~#{z0t5*J3j`1Z5(E|m83ZB(K?FktMFdC$N"
    "(4~^SOjwfcLaC@fCPdBi3E=XkOYzhp9G);tpvdY$OOy;_yqg}9R(`|Lj_j_VFi2z!3Dzw&IRQK0R{*L3I-7d69y;-H3m"
    "8cKn6kvPzG5BWCmsifd+#Hhz6Agss_3S$p+g77zZZ@ItM@pMh8*{Z3m18o(HoB+XwIm1PBiZ9S9!?D+n(Ld<c*Tp9r7`"
    "un4vY#|Y&J1PLh#GznD+V+nW(#R<p>$_dyB3JM_#I0`@tMhaF6Z3>JEnhLrK!V2pO2n!Pn7YjNILJL_7s0-8!;tLcEBn"
    "&1DGz?J;aSV?Pv<%n`-V7uSMGa~Vn+?Ma(G3F*1r7%e2o4$!Dh^f-U=E57r4FhNzz)q0+Yay!5f32`Ko3F>R1cUB"
))
IQ3_S = Grid((1, 3, 5, 7, 9, 11, 13, 15), 3, 4, (
    "000310ssX72LK2F2>=QJ3;+%Q5C9PX6#yFmAOIo&B>*P?DF7<~FaR<DIRHEWKL9`gK>$JkL;y$tNdQd%PykZ^R{&W6T>"
    "xYNaR7AydH{d`fdGX7hX9BGivW%QkpPtdm;jsrq5!1;rvRw{s{ptFy8y!g$pFm&&;Zf^*#O%B-T>qP=m6>f_W=0-{Qv*"
    "~3jq%S5djnd8UY{yBLOJ^H~~TdL;+9%QUO*0TLEDKWdUaab^&_<h5?BIivgJdssXtHzyZPm!~xI&(gD^1+X3hS>;V7*0"
    "RjR71Of;G2?7fO4FV4W5CRec83G&v9s(=^E&?$EIs!lfK>|YpMgm9zOaf5?SOQxDVFG9ZY65ryegc33iUN%Sj{=Yalme"
    "OppaP=;tpczDx&pxh!~(|x$O6j((E`^3*aF-F;R5mk_yPk11p^8L3<DVh8v`N(CIct~ECWFUNCQg)Q3F^5S_5eVkOPzh"
    "mjk2&rUStP!vn|z$^+2@-2>qR@&ot-00aR90|W&G2LuQN3Iq%U4g?Vd69g9o7z7#wAp|1?B?Kr0Dg-wKI0QQcJp@1mLI"
    "g+zO9W2@QUp~5Sp-}JVgzXffdqsEhXj!XlLVLqp9G-<s|2qExdglfzy!hs#RSO&(gf55*#z4J;sodf_5=Y12L%uX69pO"
    "t9R(o;It4uiL<LC&QUzZHU<GRhcm;q3f(3^Kkp-;<u?58i$pzL0*ahPS=mi1>2?h%W4F(Se5(XIt8wMQ)A_gP|Ck817G"
    "X^;ZK?XwxMFva;Q3g{6U<PmodIo+5fCh>NkOrCtoCc@{!3M|%%m&d0(+1ZD*aqPS;|Avj?FRb>0|yBQ4hIqk83!r{Fb6"
    "aTK?g_&N(WU3S_fnYZU=h@jt8L!!3V<!&<D~7-3I^&1PBTU5C{|q7YG^%AqXf4I0!-rM+iv>O9)a3SO{GRV+d&oZ3uw~"
    "g9wNSjR=tln+Tu?uL!aTxCq1u$q35`&<N59*$CYT00{yK6bT;*APG4MMF~d<Q3-MhiwT?wunEWs%?a2E;|b{r0tyHU3<"
    "?qoAPOW3CkiSGHVQlnK?*|(MG8s^Q3_fLdJ2FFi3*bnm<pZ>s|vyj#|p>_*9znc=?e7<`w9UI1Pc%g8Ve>1N()vCX$xx"
    "$q6@+c#0%032@DGi4Gb9!8w@ZEKnzd}R}6FviVU0#q71DJvJAKkzzoa`(G1`W6%8W|G7UftLk(OFa1DhGpbg0l%MAby1"
    "P%ud5DpR!9u6Q5EDkabLJmm|R1RYfWe$N3gbs)fjt-Fym=389!VcOF-45#x0S^Ta3l9(vC=XH(Vh@53nGe7Z"
))
# fmt: on
